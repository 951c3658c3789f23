"""A crash, a hang or a memory overrun costs one child; nothing of a child outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.work.process import ChildResult, kill_tree, reaper_command, run_child

ENV = {"PATH": os.environ["PATH"]}


def python(code: str, **limits: Any) -> ChildResult:
    how = {"timeout_s": 30, "memory_mb": 400, "env": ENV, **limits}
    return run_child([sys.executable, "-I", "-c", textwrap.dedent(code)], **how)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_child_that_ends_well_has_no_problem() -> None:
    result = python("print('done'); import sys; sys.stderr.write('note')")
    assert result.ok
    assert (result.stdout, result.stderr, result.returncode) == ("done\n", "note", 0)


def test_a_status_is_a_crash_with_the_last_line_as_reason() -> None:
    result = python("import sys; sys.stderr.write('what went wrong\\n'); sys.exit(3)")
    assert (result.problem, result.returncode) == ("crashed", 3)
    assert "what went wrong" in result.reason


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_fatal_signal_is_a_crash_that_names_it(number: signal.Signals) -> None:
    result = python(f"import os; os.kill(os.getpid(), {int(number)})")
    assert result.problem == "crashed"
    assert number.name in result.reason


def test_a_hang_is_a_timeout() -> None:
    result = python("import time; time.sleep(600)", timeout_s=0.5)
    assert result.problem == "timeout"


def test_resident_memory_is_limited() -> None:
    result = python("x = bytearray(900 * 1024 * 1024); import time; time.sleep(600)", memory_mb=200)
    assert result.problem == "memory_limit"
    assert result.peak_rss_mb > 200


def test_address_space_is_limited() -> None:
    result = python("x = bytearray(60 * 1024 ** 3)")
    assert result.problem == "memory_limit"


def test_a_command_that_is_not_there_is_a_crash() -> None:
    result = run_child(["/no/such/program"], timeout_s=10, memory_mb=100, env=ENV)
    assert (result.problem, result.returncode) == ("crashed", 127)


def test_only_the_given_environment_reaches_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    result = python("import os; print(sorted(os.environ))", env={"ONLY": "this"})
    assert "HF_TOKEN" not in result.stdout
    assert "ONLY" in result.stdout


def test_a_child_without_network_reaches_nothing() -> None:
    result = python(
        """
        import socket
        print(socket.socket().connect_ex(("192.0.2.1", 9)), len(socket.if_nameindex()))
        """,
        network=False,
    )
    assert result.stdout.split() == ["101", "1"], "ENETUNREACH, and only the loopback interface"


SPAWNS = """
    import subprocess, sys, time
    a = subprocess.Popen(["sleep", "600"], start_new_session=True)
    forks = "import os, time; os.setsid() if os.fork() == 0 else None; time.sleep(600)"
    b = subprocess.Popen([sys.executable, "-c", forks])
    time.sleep(0.3)
    print(a.pid, b.pid, flush=True)
"""


def test_what_a_child_leaves_behind_is_killed() -> None:
    result = python(SPAWNS)
    assert result.ok
    assert all(gone(int(pid)) for pid in result.stdout.split())


def test_a_timeout_takes_grandchildren_in_other_sessions_along() -> None:
    result = python(SPAWNS + "    time.sleep(600)\n", timeout_s=3)
    assert result.problem == "timeout"
    assert all(gone(int(pid)) for pid in result.stdout.split())


def test_a_tick_that_raises_ends_the_child() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    pids: list[int] = []

    def tick() -> None:
        pids.extend({child.pid for child in psutil.Process().children(recursive=True)} - before)
        raise RuntimeError("lease lost")

    with pytest.raises(RuntimeError, match="lease lost"):
        python("import time; time.sleep(600)", tick=tick, tick_s=0.2)
    assert pids
    assert all(gone(pid) for pid in pids)


def test_a_killed_parent_takes_the_whole_tree_along(tmp_path: Path, wait: Callable[..., None]) -> None:
    marker = tmp_path / "pids"
    code = f"""
        import subprocess, sys, time
        from pathlib import Path
        from pipeline.work.process import run_child
        inner = "import subprocess,os,time; p = subprocess.Popen(['sleep','600'], start_new_session=True);"
        inner += "open({str(marker)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}} {{os.getppid()}}\\\\n'); time.sleep(600)"
        run_child([sys.executable, "-c", inner], timeout_s=600, memory_mb=400, env={{}})
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait(lambda: marker.exists() and marker.read_text().endswith("\n"))
    pids = [int(text) for text in marker.read_text().split()]
    assert not any(gone(pid) for pid in pids)
    parent.kill()
    parent.wait()
    wait(lambda: all(gone(pid) for pid in pids), 10)


def test_termination_is_passed_on_and_enforced_after_the_grace(wait: Callable[..., None], tmp_path: Path) -> None:
    marker = tmp_path / "ready"
    code = (
        f"import signal,time; signal.signal(15, lambda *_: None); open({str(marker)!r}, 'w').close(); time.sleep(600)"
    )
    process = subprocess.Popen(reaper_command([sys.executable, "-c", code], grace_s=0.5), start_new_session=True)
    wait(marker.exists)
    began = time.monotonic()
    process.terminate()
    assert process.wait(20) == -signal.SIGKILL
    assert time.monotonic() - began >= 0.5


def test_killing_a_tree_twice_is_harmless() -> None:
    process = subprocess.Popen(reaper_command(["sleep", "600"]), start_new_session=True)
    time.sleep(0.2)
    kill_tree(process)
    kill_tree(process)
    assert process.returncode is not None
