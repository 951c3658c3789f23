"""First process inside the sandbox: starts the command under its limits, watches it, reports. Standard library only.

It is process 1 of its namespace, so nothing inside can stop or kill it, and it is not dumpable, so nothing inside can
read its descriptors. It holds the one channel to the outside (descriptor `report`) and ends with everything inside when
that channel has lost its reader. Run as `python init.py PLAN_FD REPORT_FD`; the plan is the JSON made by `run.py`.

The report is a line `ready`, then one JSON line {"exit", "killed_by", "refused", "files": [[name, size], ...]}, then
the bytes of the files in that order.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from typing import Any

PR_SET_DUMPABLE = 4
TICK_S = 0.02
RLIMITS = {
    "cpu_s": resource.RLIMIT_CPU,
    "address_space": resource.RLIMIT_AS,
    "processes": resource.RLIMIT_NPROC,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
}
READY = b"ready\n"


def main() -> None:
    """Run the plan, report, end. Ending process 1 ends everything left inside."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    with os.fdopen(int(sys.argv[1]), "rb") as given:
        plan = json.load(given)
    report = os.dup(int(sys.argv[2]))
    os.closerange(3, report)
    os.closerange(report + 1, 65536)
    os.set_inheritable(report, False)
    os.write(report, READY)
    for folder in plan["folders"]:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = start(plan)
    exit_status, killed_by = watch(child, plan, report)
    end_all_others()
    send(report, exit_status, killed_by, plan)
    os._exit(0)


def start(plan: dict[str, Any]) -> int:
    """Fork the command with its limits set; returns its process id. Status 127 if it cannot be executed."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        os.chdir(plan["work"])
        for name, kind in RLIMITS.items():
            resource.setrlimit(kind, (plan[name], plan[name] + (kind == resource.RLIMIT_CPU)))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.execve(plan["argv"][0], plan["argv"], plan["environment"])  # noqa: S606 - inside the sandbox
    except (OSError, ValueError) as error:
        os.write(2, f"{plan['argv'][0]}: {error}\n".encode())
    os._exit(127)


def watch(child: int, plan: dict[str, Any], report: int) -> tuple[int | None, str | None]:
    """Wait for the command within its limits; returns its status and the limit that ended it."""
    deadline = time.monotonic() + plan["wall_s"]
    reader = select.poll()
    reader.register(report, select.POLLERR)
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, TICK_S)
        ended = reaped(child)
        if ended is not None:
            status, cpu_s = ended
            spent = status == 128 + signal.SIGXCPU or (status > 128 and cpu_s >= plan["cpu_s"])
            return status, "cpu" if spent else None
        if reader.poll(0):
            os._exit(1)
        broken = broken_limit(plan, deadline)
        if broken:
            return None, broken


def reaped(child: int) -> tuple[int, float] | None:
    """Collect every ended process; status and seconds of processor time of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code, usage.ru_utime + usage.ru_stime


def broken_limit(plan: dict[str, Any], deadline: float) -> str | None:
    """The first limit over the whole tree that is exceeded now."""
    usage = os.statvfs(plan["work"])
    if usage.f_files - usage.f_ffree > plan["inodes"]:
        return "inodes"
    held = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
    if held + resident_bytes() > plan["memory"]:
        return "memory"
    return "wall_clock" if time.monotonic() > deadline else None


def resident_bytes() -> int:
    """Anonymous and shared resident memory of every process but this one. Forked pages count once per process."""
    total = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is slow to import
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/status", "rb") as lines:  # noqa: PTH123 - pathlib is slow to import
                    total += sum(int(x.split()[1]) for x in lines if x.startswith((b"RssAnon", b"RssShmem")))
            except OSError:
                continue  # it ended meanwhile
    return total * 1024


def end_all_others() -> None:
    """Kill every other process here and wait until none is left, so that no one writes while files are read."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
            os.waitpid(-1, 0)
        except (ProcessLookupError, ChildProcessError):
            return


def send(report: int, status: int | None, killed_by: str | None, plan: dict[str, Any]) -> None:
    """Write the report: only files of the list, only plain files with one name, only up to their size."""
    taken, refused = {}, {}
    for name, max_bytes in plan["files_out"]:
        content = plain_file(plan["work"], name, max_bytes)
        if isinstance(content, bytes):
            taken[name] = content
        elif content:
            refused[name] = content
    head = {
        "exit": status,
        "killed_by": killed_by,
        "refused": refused,
        "files": [[n, len(c)] for n, c in taken.items()],
    }
    with os.fdopen(report, "wb") as out:
        out.write(json.dumps(head).encode() + b"\n")
        for content in taken.values():
            out.write(content)


def plain_file(work: str, name: str, max_bytes: int) -> bytes | str | None:
    """The bytes of a plain file, None if there is none, or the reason why it is refused."""
    try:
        fd = os.open(f"{work}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"not a plain file ({error.strerror})"
    try:
        return reason_against(os.fstat(fd), max_bytes) or read_up_to(fd, max_bytes)
    finally:
        os.close(fd)


def reason_against(found: os.stat_result, max_bytes: int) -> str | None:
    """Why an opened file may not leave, None if it may."""
    if not stat.S_ISREG(found.st_mode):
        return "not a plain file"
    if found.st_nlink != 1:
        return "has a second name (hard link)"
    return f"{found.st_size} bytes, at most {max_bytes} allowed" if found.st_size > max_bytes else None


def read_up_to(fd: int, max_bytes: int) -> bytes:
    """The file's bytes. Nothing else runs any more, so it cannot grow meanwhile."""
    blocks = []
    while max_bytes > 0 and (block := os.read(fd, min(max_bytes, 1 << 20))):
        blocks.append(block)
        max_bytes -= len(block)
    return b"".join(blocks)


if __name__ == "__main__":
    main()
