"""Answers are made once, survive a run that was cut off, and do not survive a change of the code they depend on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import kept
from benchmarks.kept import Kept, digest_of


def test_an_answer_is_made_once_and_found_by_the_next_run(tmp_path: Path) -> None:
    path, made = tmp_path / "folder" / "answers.jsonl", []

    def make() -> dict[str, int]:
        made.append(1)
        return {"value": len(made)}

    first = Kept(path, "v1")
    assert first.known("a") is None
    assert [first.answer("a", make), first.answer("a", make)] == [{"value": 1}] * 2
    assert Kept(path, "v1").answer("a", make) == {"value": 1}
    assert Kept(path, "v2").answer("a", make) == {"value": 2}


def test_what_failed_is_not_kept(tmp_path: Path) -> None:
    def broken() -> None:
        raise RuntimeError("the child ended")

    with pytest.raises(RuntimeError):
        Kept(tmp_path / "a.jsonl", "v").answer("a", broken)
    assert Kept(tmp_path / "a.jsonl", "v").answer("a", lambda: 3) == 3


def test_the_version_changes_with_every_source_and_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("1")
    before = digest_of(["a"])
    (tmp_path / "a" / "notes.txt").write_text("no source")
    assert digest_of(["a"]) == before
    (tmp_path / "a" / "x.py").rename(tmp_path / "a" / "y.py")
    renamed = digest_of(["a"])
    (tmp_path / "a" / "y.py").write_text("2")
    assert len({before, renamed, digest_of(["a"])}) == 3
