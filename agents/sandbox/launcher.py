"""Starts bubblewrap as an unprivileged user. Runs as its own process, standard library only.

It reads one JSON document from the descriptor named in argv[1]: {"argv", "parent", "uid" or null, "stage": [[source,
name], ...], "stage_dir", "group" or null, "processes"}. With a group it joins it. With a uid (we are root) it first
makes a private mount namespace and binds every source read-only below an empty tmpfs on `stage_dir`: the unprivileged
user then reaches files whose path it could not walk (an interpreter below a 0700 home), and nothing of the machine is
changed. Then it drops to the uid for good and becomes bubblewrap. It ends with status 70 and one line on standard error
if any of this fails. (bubblewrap's `--ro-bind-fd` does not help: it walks the descriptor's path as the dropped user.)
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
SETUP_FAILED = 70


def main() -> None:
    """Stage, drop, exec. Does not return."""
    with os.fdopen(int(sys.argv[1]), "rb") as given:
        plan = json.load(given)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if plan["group"]:
            Path(plan["group"]).write_text("0")
        if plan["uid"] is not None:
            stage(libc, plan)
            drop(plan["uid"], plan["processes"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of user clears it
        if os.getppid() != plan["parent"]:
            os._exit(SETUP_FAILED)
        os.execv(plan["argv"][0], plan["argv"])  # noqa: S606 - the argument list is ours
    except OSError as error:
        sys.stderr.write(f"launcher: {error}\n")
        sys.stderr.flush()
        os._exit(SETUP_FAILED)


def stage(libc: Any, plan: dict[str, Any]) -> None:
    """Bind every source below a tmpfs in a mount namespace of our own. Sources are opened first: it may hide them."""
    checked(libc.unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)")
    mount(libc, b"none", b"/", None, MS_REC | MS_PRIVATE)
    opened = [(os.open(source, os.O_PATH | os.O_CLOEXEC), name) for source, name in plan["stage"]]
    root = plan["stage_dir"]
    mount(libc, b"tmpfs", root.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755,size=1m")
    for fd, name in opened:
        target = Path(root) / name
        source = f"/proc/self/fd/{fd}"
        if Path(source).is_dir():
            target.mkdir()
        else:
            target.touch()
        mount(libc, source.encode(), bytes(target), None, MS_BIND)
        mount(libc, b"none", bytes(target), None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
        os.close(fd)


def mount(libc: Any, source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    """mount(2). Raises OSError that names the target."""
    checked(libc.mount(source, target, kind, ctypes.c_ulong(flags), data), f"mount on {target.decode()!r}")


def checked(status: int, what: str) -> None:
    """Raise the OSError of a failed libc call."""
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def drop(uid: int, processes: int) -> None:
    """Become `uid` for good; the process limit counts from here, for no one else uses this uid."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    os.chdir("/")


if __name__ == "__main__":
    main()
