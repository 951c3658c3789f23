"""Child processes: one command in a session of its own, limited in time and memory, that never outlives its parent.

A crash, a hang or a memory overrun costs one child: `run_child` returns what happened, it never raises for it.
Processes are started through `reaper.py`, without fork hooks, so that this is safe from any thread of any parent; the
starting thread has to live as long as the child (the kernel's parent-death signal follows the thread).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal, Protocol

import psutil

from pipeline.database.unit_of_work import assert_no_transaction
from pipeline.work import reaper

ChildProblem = Literal["crashed", "timeout", "memory_limit"]
ADDRESS_SPACE_SLACK_MB = 16_384
"""Address space is not memory: libraries map far more than they use. The watchdog on resident size does the work."""
MEMORY_POLL_S = 0.25
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
HAS_CHILD_LISTS = Path(f"/proc/self/task/{os.getpid()}/children").exists()
"""A kernel may be built without them."""
TAIL_BYTES = 16_384
OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
OUT_OF_MEMORY_TEXTS = ("MemoryError", "std::bad_alloc", "can't allocate memory", "Cannot allocate memory")
KILL_WAIT_S = 5.0


@dataclass(frozen=True)
class ChildResult:
    """How a child ended. `problem` is None if it exited with status 0; `reason` says it in one sentence."""

    returncode: int
    problem: ChildProblem | None
    reason: str
    seconds: float
    peak_rss_mb: float
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """True if the child exited with status 0 within its limits."""
        return self.problem is None


def reaper_command(
    argv: Sequence[str], *, address_space_mb: int = 0, grace_s: float = 5.0, network: bool = True
) -> list[str]:
    """The command line that runs `argv` under the reaper as a child of this process."""
    options = ["--parent", str(os.getpid()), "--address-space-mb", str(address_space_mb), "--grace", str(grace_s)]
    isolated = [] if network else ["--no-network"]
    return [sys.executable, "-I", "-S", str(Path(reaper.__file__)), *options, *isolated, "--", *argv]


def run_child(
    argv: Sequence[str],
    *,
    timeout_s: float,
    memory_mb: int,
    env: Mapping[str, str],
    cwd: Path | None = None,
    network: bool = True,
    tick: Callable[[], None] | None = None,
    tick_s: float = 15.0,
) -> ChildResult:
    """Run a command to its end and say how it ended.

    `timeout_s` is wall-clock; `memory_mb` bounds the resident size of its whole process tree; `env` is all it gets.
    `tick` is called about every `tick_s` seconds; if it raises, the child is killed and the error goes on.
    Raises `TransactionOpen` if called inside a unit of work, OSError if no process can be started.
    """
    assert_no_transaction()
    command = reaper_command(argv, address_space_mb=memory_mb + ADDRESS_SPACE_SLACK_MB, network=network)
    with TemporaryFile() as out, TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(env), cwd=cwd, start_new_session=True
        )
        return watched(process, (out, err), timeout_s, memory_mb, tick, tick_s)


def watched(
    process: Process,
    files: tuple[IO[bytes], IO[bytes]],
    timeout_s: float,
    memory_mb: int,
    tick: Callable[[], None] | None = None,
    tick_s: float = 15.0,
) -> ChildResult:
    """As `run_child`, of a running child under the reaper whose output and errors go to `files`."""
    watch = _Watch(process, files, timeout_s, memory_mb)
    try:
        watch.until_it_ends(tick, tick_s)
    finally:
        kill_tree(process)
    return watch.result(*map(_tail, files))


class Process(Protocol):
    """What is asked of a running child: a `Popen`, or a forked one."""

    pid: int
    returncode: Any

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired."""

    def poll(self) -> int | None:
        """The exit status, None while it runs."""

    def send_signal(self, sig: int) -> None:
        """Sends a signal."""

    def kill(self) -> None:
        """Ends it."""


class _Watch:
    """One running child, its limits and what was measured."""

    def __init__(self, process: Process, files: tuple[IO[bytes], ...], timeout_s: float, memory_mb: int):
        self._process, self._files, self._timeout_s, self._memory_mb = process, files, timeout_s, memory_mb
        self._began = time.monotonic()
        self._peak_mb = 0.0
        self._over: tuple[ChildProblem, str] | None = None

    def until_it_ends(self, tick: Callable[[], None] | None, tick_s: float) -> None:
        """Wait for the end, or for the first limit that is broken."""
        next_tick = self._began + tick_s
        pause = 0.02
        while self._over is None:
            try:
                self._process.wait(pause)
                return
            except subprocess.TimeoutExpired:
                pause = min(pause * 2, MEMORY_POLL_S)
            self._over = self._broken_limit()
            if tick is not None and time.monotonic() >= next_tick:
                tick()
                next_tick = time.monotonic() + tick_s

    def _broken_limit(self) -> tuple[ChildProblem, str] | None:
        used = tree_rss_mb(self._process.pid)
        self._peak_mb = max(self._peak_mb, used)
        if used > self._memory_mb:
            return "memory_limit", f"The child used {used:.0f} MB, its limit is {self._memory_mb} MB."
        if time.monotonic() - self._began > self._timeout_s:
            return "timeout", f"The child did not end within {self._timeout_s:g} s."
        if sum(os.fstat(file.fileno()).st_size for file in self._files) > OUTPUT_LIMIT_BYTES:
            return "crashed", f"The child wrote more than {OUTPUT_LIMIT_BYTES // 1024 // 1024} MB of output."
        return None

    def result(self, stdout: str, stderr: str) -> ChildResult:
        """What happened, after the child is gone."""
        code = self._process.returncode
        problem, reason = self._over or _judge(code, stderr)
        seconds = time.monotonic() - self._began
        return ChildResult(code, problem, reason, seconds, self._peak_mb, stdout, stderr)


def _judge(code: int, stderr: str) -> tuple[ChildProblem | None, str]:
    if code == 0:
        return None, ""
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
    if any(text in stderr for text in OUT_OF_MEMORY_TEXTS):
        return "memory_limit", f"The child ran out of memory: {last}"
    if code < 0:
        return "crashed", f"The child was ended by {signal.Signals(-code).name}. {last}".strip()
    return "crashed", f"The child ended with status {code}. {last}".strip()


def tree_rss_mb(pid: int) -> float:
    """Resident size in MiB of a process and all below it; shared pages count in each.

    The kernel's own lists of children are followed, because a look at every process of the machine, several times a
    second, costs more than all else that is done beside a short child.
    """
    pages, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            pages += int(Path(f"/proc/{one}/statm").read_bytes().split()[1])
            waiting += _children(one)
        except (OSError, IndexError, psutil.Error):
            continue  # it has ended meanwhile
    return pages * PAGE_BYTES / 1024 / 1024


def _children(pid: int) -> list[int]:
    if not HAS_CHILD_LISTS:
        return [child.pid for child in psutil.Process(pid).children()]
    listed = ((task / "children").read_bytes().split() for task in Path(f"/proc/{pid}/task").iterdir())
    return [int(child) for children in listed for child in children]


def kill_tree(process: Process) -> None:
    """End a process started through the reaper and everything below it, now; returns when it is gone."""
    if process.poll() is not None:
        return
    process.send_signal(reaper.KILL_NOW)
    try:
        process.wait(KILL_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    return file.read().decode(errors="replace")
