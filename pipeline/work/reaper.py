"""Runs one command and guarantees that nothing of it outlives its parent. Standard library only; run as a file.

`supervise` gives a function of a forked process the same promises (`forked.py`).

    python -I -S reaper.py --parent PID [--address-space-mb N] [--grace S] [--no-network] -- COMMAND...

Promises: the command runs in a session of its own; when the process PID (our parent) dies, or the command ends, every
descendant of the command is killed, those that changed their session or parent included (we are their subreaper);
SIGTERM is passed on and after `--grace` seconds becomes a kill; SIGUSR1 kills at once. Exit status and fatal signal of
the command become ours. A process that watches is needed because PR_SET_PDEATHSIG reaches one process, not a tree.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000
EXIT_PARENT_GONE = 143
EXIT_NOT_STARTED = 127
KILL_NOW = signal.SIGUSR1
WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, KILL_NOW)
NO_DEADLINE_S = 3600.0


def main(arguments: list[str]) -> int:
    """Run the command to its end; returns the exit status to leave with."""
    options = parse(arguments)
    return supervise(options, lambda: become_command(options.command))


def supervise(options: argparse.Namespace, work: Callable[[], NoReturn]) -> int:
    """Do `work`, which does not return, in a child to its end; returns the exit status to leave with."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != options.parent:
        return EXIT_PARENT_GONE
    child = os.fork()
    if child == 0:
        enter(options)
        work()
    status = watch(child, options)
    kill_descendants()
    return leave_with(status)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options and the command after `--`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--address-space-mb", type=int, default=0)
    parser.add_argument("--grace", type=float, default=5.0)
    parser.add_argument("--no-network", action="store_true")
    parser.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def prctl(option: int, value: int) -> None:
    """One prctl call on this process; a kernel without it is ignored."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def enter(options: argparse.Namespace) -> None:
    """In the forked child: its session and its limits."""
    reaper = os.getppid()
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != reaper:
        os._exit(EXIT_PARENT_GONE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options.address_space_mb:
        size = options.address_space_mb * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    if options.no_network:
        leave_network()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)


def become_command(command: list[str]) -> NoReturn:
    """The command itself in place of this process. Never returns."""
    try:
        os.execvp(command[0], command)  # noqa: S606 - an argument list of our own, no shell
    except OSError as error:
        os.write(2, f"cannot run {command[0]!r}: {error.strerror}\n".encode())
        os._exit(EXIT_NOT_STARTED)


def leave_network() -> None:
    """Enter an empty network namespace where the kernel allows it; elsewhere the cleared environment has to do."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)


def watch(child: int, options: argparse.Namespace) -> int:
    """Wait for the command; returns its wait status. Kills the tree when told to, or when our parent is gone."""
    deadline = time.monotonic() + NO_DEADLINE_S * 24 * 365
    while True:
        status = reap(child)
        if status is not None:
            return status
        left = max(0.0, min(deadline - time.monotonic(), NO_DEADLINE_S))
        got = signal.sigtimedwait(WATCHED, left)
        number = got.si_signo if got else None
        orphaned = os.getppid() != options.parent
        if number == KILL_NOW or orphaned or time.monotonic() >= deadline:
            kill_descendants(keep=child)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            deadline = time.monotonic() + NO_DEADLINE_S
        elif number in (signal.SIGTERM, signal.SIGINT):
            deadline = min(deadline, time.monotonic() + options.grace)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)


def reap(child: int) -> int | None:
    """Collect every ended process; the wait status of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def descendants() -> list[int]:
    """Every living process below this one, by the parents in /proc."""
    parents = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - no imports beyond the plain ones
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rsplit(b")", 1)[1].split()
                if fields[0] != b"Z":
                    parents[int(name)] = int(fields[1])
    found: list[int] = []
    frontier = {os.getpid()}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def kill_descendants(keep: int | None = None) -> None:
    """SIGKILL everything below us until nothing is left; `keep` is left for the caller (it is still waited for)."""
    for _ in range(200):
        alive = [pid for pid in descendants() if pid != keep]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if keep is None:
            reap(-1)
        time.sleep(0.01)


def leave_with(status: int) -> int:
    """End as the command did: by its signal, or with its exit status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
        return 128 + number
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
