"""The sandbox's parts, each without a sandbox: view, packages, filter, plan, report, remedies."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agents.sandbox import KilledBy, Limits, SandboxUnavailable, init, plan, run, view
from agents.sandbox.packages import NEVER, package_paths
from agents.sandbox.remedies import OTHERWISE, remedy_for
from agents.sandbox.seccomp import REFUSED, filter_program

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_view_shows_no_home_no_repository_and_no_grader() -> None:
    shown = view.readonly_view(("torch", "numpy", "transformers"), {})
    packages = Path(package_paths(("torch",))[0]).parent
    assert not [item for item in shown if item.source in {Path.home(), REPOSITORY, packages}]
    ours = [item.source for item in shown if item.source.is_relative_to(REPOSITORY)]
    assert not [path for path in ours if not path.is_relative_to(packages) or path.name in NEVER]


def test_destinations_do_not_tell_where_the_factory_lives() -> None:
    destinations = {item.dest for item in view.readonly_view(("torch",), {})}
    assert not [
        dest for dest in destinations if not dest.startswith(("/opt/", "/usr/lib", "/etc/ld.so", "/sys/devices"))
    ]


def test_packages_are_closed_under_what_they_require() -> None:
    names = {path.name for path in package_paths(("torch",))}
    assert {"torch", "sympy", "mpmath", "networkx", "jinja2", "typing_extensions.py"} <= names
    assert not names & NEVER
    assert "transformers" not in names


def test_our_own_distribution_shows_none_of_our_code() -> None:
    assert not {path.name.split(".")[0] for path in package_paths(("spyre-adapter-factory",))} & NEVER


def test_the_filter_is_a_whole_bpf_program_and_refuses_what_the_design_names() -> None:
    program = filter_program()
    assert len(program) % 8 == 0
    assert len(program) > 8 * 50
    refused = {name for names in REFUSED.values() for name in names}
    assert {"ptrace", "process_vm_readv", "bpf", "keyctl", "userfaultfd", "perf_event_open"} <= refused
    assert {"io_uring_setup", "mount", "unshare", "setns"} <= refused


ISOLATION = """--unshare-all --unshare-user --disable-userns --new-session --die-with-parent --clearenv
--cap-drop,ALL --seccomp,7 --remount-ro,/ --size,4096,--tmpfs,/work"""


def test_bubblewrap_gets_every_isolation_option_and_a_read_only_root() -> None:
    args = plan.bwrap_arguments([view.Shown(Path("/a"), "/b")], {}, Limits(tmp=4096), 7, ["cmd"])
    assert not [option for option in ISOLATION.split() if option not in ",".join(args)]
    assert "--bind" not in args
    assert args[-2:] == ["--", "cmd"]


@pytest.mark.parametrize(
    ("uid_map", "low", "high"),
    [("         0          0 4294967295\n", 0x6000_0000, 0x7000_0000), ("0 1000 1\n1 100000 65536\n", 32768, 65536)],
)
def test_the_user_is_drawn_from_the_ids_that_exist_here(
    monkeypatch: pytest.MonkeyPatch, uid_map: str, low: int, high: int
) -> None:
    monkeypatch.setattr(plan.Path, "read_text", lambda self: uid_map)
    assert low <= plan.unused_uid() < high


def _collected(report: bytes, **changes: object) -> run.Collected:
    collected = run.Collected(1 << 16, {"report": bytearray(report)})
    for name, value in changes.items():
        setattr(collected, name, value)
    return collected


def _report(**changes: object) -> bytes:
    head = {"exit": 0, "killed_by": None, "refused": {}, "files": [["a", 2]], **changes}
    return b"ready\n" + json.dumps(head).encode() + b"\n"


def test_a_complete_report_gives_the_files() -> None:
    result = _collected(_report() + b"xy").result(["a"], 1.0)
    assert (result.files, result.exit, result.killed_by) == ({"a": b"xy"}, 0, None)


@pytest.mark.parametrize(
    "report",
    [
        b"ready\n",
        b"ready\nnot json\n",
        b"ready\n[]\n",
        _report() + b"x",
        _report() + b"xyz",
        _report(files=[["other", 2]]) + b"xy",
        _report(files=[["a", -2], ["a", 4]]) + b"xy",
        _report(files=[["a", "two"]]) + b"xy",
    ],
)
def test_a_report_that_is_cut_or_forged_gives_nothing(report: bytes) -> None:
    result = _collected(report).result(["a"], 1.0)
    assert (result.files, result.exit, result.killed_by) == ({}, None, KilledBy.ITSELF)
    assert not result.succeeded


def test_without_a_ready_line_the_sandbox_is_unavailable() -> None:
    said = {
        "report": bytearray(),
        "stderr": bytearray(b"bwrap: Creating new namespace failed: Operation not permitted"),
    }
    with pytest.raises(SandboxUnavailable, match="max_user_namespaces"):
        run.Collected(9, said).result([], 0.0)


def test_a_limit_seen_from_outside_wins_and_no_file_leaves() -> None:
    result = _collected(_report() + b"xy", killed_by=KilledBy.OUTPUT).result(["a"], 1.0)
    assert (result.files, result.exit, result.killed_by) == ({}, None, KilledBy.OUTPUT)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("bwrap: Unknown option --disable-userns", "0.8"),
        ("bwrap: No permissions to create new namespace", "unprivileged_userns_clone"),
        ("launcher: [Errno 1] unshare(CLONE_NEWNS): Operation not permitted", "CAP_SYS_ADMIN"),
        ("bwrap: Can't find source path /x: Permission denied", "readable"),
    ],
)
def test_what_bubblewrap_says_leads_to_a_remedy(said: str, word: str) -> None:
    assert word in remedy_for(said)


def test_an_unknown_message_leads_to_the_self_test() -> None:
    assert remedy_for("strange") == OTHERWISE


@pytest.mark.parametrize("name", ["null", "zero", "full", "tty"])
def test_a_device_does_not_leave(name: str) -> None:
    """No one inside can make a device node; the reader would refuse it all the same."""
    assert "not a plain file" in str(init.plain_file("/dev", name, 10))


def test_a_named_pipe_does_not_leave_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert init.plain_file(str(tmp_path), "pipe", 10) == "not a plain file"


def test_a_view_never_shows_a_folder_that_holds_the_factory(tmp_path: Path) -> None:
    for folder in (REPOSITORY, REPOSITORY.parent, Path.home(), Path("/")):
        with pytest.raises(ValueError, match="would be shown"):
            view.readonly_view((), {"all": folder})
    assert view.readonly_view((), {"own": tmp_path})
