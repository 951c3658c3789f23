"""The memory group: used where it is delegated, left alone where not, removed afterwards. On a made-up cgroup tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.sandbox.memory import ALWAYS, memory_group


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A version 2 tree whose group `user` hands memory down to its children; we are in `user/us`."""
    for name, handed_down in (("", "memory cpu"), ("user", "memory"), ("user/us", "")):
        group = tmp_path / "cgroup" / name
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.subtree_control").write_text(handed_down)
        (group / "cgroup.procs").write_text("")
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("memory cpu")
    (tmp_path / "own").write_text("0::/user/us\n")
    return tmp_path


def test_a_delegated_group_gets_the_limit_and_is_removed(tree: Path) -> None:
    with memory_group(4096, tree / "cgroup", tree / "own") as group:
        assert group.path is not None
        assert group.path.parent == tree / "cgroup" / "user"
        assert (group.path / "memory.max").read_text() == "4096"
        assert group.in_force.startswith("cgroup v2")
        (group.path / "memory.events").write_text("oom 1\noom_kill 1\n")
        assert group.has_killed()
        for made in group.path.iterdir():  # the kernel's files vanish with the folder, ours do not
            made.unlink()
    assert not [p for p in (tree / "cgroup" / "user").iterdir() if p.name.startswith("spyre")]


def test_without_the_memory_controller_nothing_is_made(tree: Path) -> None:
    (tree / "cgroup" / "user" / "cgroup.subtree_control").write_text("cpu")
    with memory_group(4096, tree / "cgroup", tree / "own") as group:
        assert (group.path, group.procs, group.in_force, group.has_killed()) == (None, None, ALWAYS, False)


@pytest.mark.parametrize("own", ["4:memory:/user\n", "", "0::/user/us\n"])
def test_version_1_is_left_alone(tree: Path, own: str) -> None:
    (tree / "own").write_text(own)
    (tree / "cgroup" / "cgroup.controllers").unlink()
    with memory_group(4096, tree / "cgroup", tree / "own") as group:
        assert group.path is None


def test_a_group_outside_the_tree_is_not_used(tree: Path) -> None:
    (tree / "own").write_text("0::/\n")
    (tree / "cgroup" / "cgroup.subtree_control").write_text("")
    (tree / "cgroup.subtree_control").write_text("memory")
    (tree / "cgroup.procs").write_text("")
    with memory_group(4096, tree / "cgroup", tree / "own") as group:
        assert group.path is None
