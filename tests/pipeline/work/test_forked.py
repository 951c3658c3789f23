"""Forked children keep the promises of started ones: one task, limits on memory and time, no network, no survivors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pipeline.work import forked
from pipeline.work.forked import Standby

SECONDS = 60.0


class Doing:
    """A work of one function; `held` is what it prepared."""

    def __init__(self, does: Callable[[str], None], prepares: Callable[[], None] = lambda: None) -> None:
        self._does, self._prepares = does, prepares
        self.held = 0

    def prepare(self) -> None:
        self._prepares()
        self.held = os.getpid()

    def work(self, task: str) -> None:
        assert self.held == os.getpid(), "prepared and worked in one process"
        self._does(task)


def room(own_mb: int = 4_096) -> int:
    """A memory limit in MiB: what this process holds counts in the child and in its reaper, which share its pages."""
    return int(psutil.Process().memory_info().rss / 2**20 * 2) + own_mb


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of the test runner have a thread of their own, which these children do not need."""
    monkeypatch.setattr(forked.threading, "active_count", lambda: 1)


def test_it_does_its_one_task_elsewhere_and_what_it_says_comes_back(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def works(task: str) -> None:
        Path(task).write_text(str(os.getpid()))
        os.write(1, b"said\n")

    child = Standby(Doing(works), room())
    ended = child.run(str(out), SECONDS)
    assert ended.ok, ended
    assert ended.stdout == "said\n"
    assert int(out.read_text()) != os.getpid()
    child.dismiss()


def test_what_it_raises_is_a_crash_with_its_traceback() -> None:
    ended = Standby(Doing(lambda _: [][1]), room()).run("x", SECONDS)
    assert ended.problem == "crashed"
    assert "IndexError" in ended.stderr


def test_what_it_raises_while_it_prepares_is_told_when_there_is_a_task() -> None:
    def prepares() -> None:
        raise OSError("no device here")

    ended = Standby(Doing(lambda _: None, prepares), room()).run("x", SECONDS)
    assert ended.problem == "crashed"
    assert "no device here" in ended.stderr


def test_time_and_memory_are_limited() -> None:
    assert Standby(Doing(lambda _: time.sleep(60)), room()).run("x", 0.3).problem == "timeout"
    held: list[bytes] = []

    def eats(_: str) -> None:
        while True:  # until it is ended: how much of this process's memory counts in the child differs
            held.append(os.urandom(1 << 20) * 20)
            time.sleep(0.02)

    assert Standby(Doing(eats), room(400)).run("x", SECONDS).problem == "memory_limit"


def test_nothing_that_it_started_outlives_it(tmp_path: Path) -> None:
    def leaves_one_behind(task: str) -> None:
        code = "import os, time\nos.setsid()\ntime.sleep(300)"
        Path(task).write_text(str(subprocess.Popen([sys.executable, "-c", code]).pid))

    assert Standby(Doing(leaves_one_behind), room()).run(str(tmp_path / "pid"), SECONDS).ok
    left = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE


def test_it_has_no_network() -> None:
    def connects(_: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as given:
            given.connect(("192.0.2.1", 9))

    def forks_a_namespace() -> bool:
        done = subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True)
        return done.returncode == 0

    ended = Standby(Doing(connects), room()).run("x", SECONDS)
    assert ended.ok is not forks_a_namespace() or "unreachable" in ended.stderr


def test_one_without_a_task_is_dismissed_and_one_at_work_can_be_ended() -> None:
    idle = Standby(Doing(lambda _: None), room())
    idle.dismiss()
    idle.dismiss()
    busy = Standby(Doing(lambda _: time.sleep(300)), room())
    ends = threading.Timer(0.2, busy.abort)
    ends.start()
    assert busy.run("x", 120.0).problem == "crashed"
    ends.join()


def test_a_task_is_one_line() -> None:
    child = Standby(Doing(lambda _: None), room())
    with pytest.raises(ValueError, match="one line"):
        child.run("a\nb", SECONDS)
    child.dismiss()


def test_a_process_with_threads_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked.threading, "active_count", lambda: 2)
    with pytest.raises(RuntimeError, match="several threads"):
        Standby(Doing(lambda _: None), room())
