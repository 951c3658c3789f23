"""Children that are forked: what this process has imported is there already, and the promises are those of `run_child`.

A fork takes one thread along and every lock as it is, so it is made before this process starts threads of its own. Only
code of ours runs in such a child: what must not see this process's memory is started through `run_child` or in the
sandbox.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import traceback
from argparse import Namespace
from tempfile import TemporaryFile
from typing import NoReturn, Protocol

from pipeline.work import reaper
from pipeline.work.process import ADDRESS_SPACE_SLACK_MB, ChildResult, kill_tree, watched

TASK_BYTES = 65_536


class ForkedProcess:
    """What `subprocess.Popen` is for a started process, for a forked one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._once = threading.Lock()

    def poll(self) -> int | None:
        """The exit status, None while it runs. Any thread may ask."""
        with self._once:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired."""
        if self.poll() is None:
            ends = os.pidfd_open(self.pid)
            try:
                select.select([ends], [], [], timeout)
            finally:
                os.close(ends)
        found = self.poll()
        if found is None:
            raise subprocess.TimeoutExpired("forked child", timeout or 0.0)
        return found

    def send_signal(self, sig: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


class Work(Protocol):
    """What a standby child does: before there is a task, and with it."""

    def prepare(self) -> None:
        """Done at once, while this process does something else. What it raises ends the child."""

    def work(self, task: str) -> None:
        """The one task, a line of text."""


class Standby:
    """A forked child that has prepared itself and waits for one task.

    It runs without network where the kernel allows that. Raises RuntimeError if this process has more threads.
    """

    def __init__(self, work: Work, memory_mb: int) -> None:
        if threading.active_count() > 1:
            raise RuntimeError("a process with several threads must not fork")
        self._memory_mb = memory_mb
        self._out, self._err = TemporaryFile(), TemporaryFile()  # noqa: SIM115 - `_close` does
        given, self._task = os.pipe()
        options = Namespace(
            parent=os.getpid(), address_space_mb=memory_mb + ADDRESS_SPACE_SLACK_MB, grace=5.0, no_network=True
        )
        pid = os.fork()
        if pid == 0:
            os.close(self._task)
            self._become(options, given, work)
        os.close(given)
        self._process = ForkedProcess(pid)

    def run(self, task: str, timeout_s: float) -> ChildResult:
        """Gives the task and says how the child ended; its time counts from now. The thread that forked must live on.

        Raises ValueError for a task of several lines or too long a one.
        """
        line = task.encode()
        if b"\n" in line or len(line) >= TASK_BYTES:
            raise ValueError("a task is one line")
        self._give(line + b"\n")
        try:
            return watched(self._process, (self._out, self._err), timeout_s, self._memory_mb)
        finally:
            self._close()

    def abort(self) -> None:
        """Kills the child while another thread is in `run`, which then says so."""
        self._process.send_signal(reaper.KILL_NOW)

    def dismiss(self) -> None:
        """Ends the child if it still waits; what has run is left as it is."""
        self._close()
        kill_tree(self._process)

    def _give(self, line: bytes) -> None:
        try:
            os.write(self._task, line)
        except BrokenPipeError:  # it has died while it prepared: `watched` says how
            return

    def _close(self) -> None:
        if self._task >= 0:
            os.close(self._task)
            self._out.close()
            self._err.close()
            self._task = -1

    def _become(self, options: Namespace, given: int, work: Work) -> NoReturn:
        """In the child: the reaper, and below it the work. Nothing of the parent's is cleaned up here."""
        status = 1
        try:
            os.setsid()
            with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor, no path of ours
                for source, number in ((nothing.fileno(), 0), (self._out.fileno(), 1), (self._err.fileno(), 2)):
                    os.dup2(source, number)
            status = reaper.supervise(options, lambda: _worked(given, work))
        finally:
            os._exit(status)


def _worked(given: int, work: Work) -> NoReturn:
    status = 1
    try:
        work.prepare()
        with os.fdopen(given, "rb") as tasks:
            task = tasks.readline()
        if task:
            work.work(task.decode().rstrip("\n"))
        status = 0
    except BaseException:  # noqa: BLE001 - the end of this process: what was raised is told as an exit status
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
