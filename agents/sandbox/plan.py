"""Turns a request into the launcher's plan: bubblewrap's arguments, what is staged as root, which user it runs as."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import SandboxUnavailable
from .limits import Limits
from .view import DEVICES, INIT, MADE_UP, PYTHON, WORK, Shown, hidden_folders, usr_merged

NEEDS_BUBBLEWRAP = "install bubblewrap 0.8 or newer (apt-get install bubblewrap)"
ISOLATION = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent",
    "--clearenv", "--as-pid-1", "--hostname", "sandbox", "--uid", "1000", "--gid", "1000",
)  # fmt: skip
LIBRARY_LINKS = ("/lib", "/lib64", "/lib32")
UID_BASE, UID_SPAN = 0x6000_0000, 0x0FFF_FFFF


@dataclass
class Descriptors:
    """In-memory files handed to the sandbox by descriptor. Closed together."""

    fds: list[int] = field(default_factory=list)

    def add(self, name: str, content: bytes) -> int:
        """A descriptor that reads `content` from its start."""
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
        self.fds.append(fd)
        with os.fdopen(os.dup(fd), "wb") as out:
            out.write(content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def close(self) -> None:
        """Close all of them."""
        while self.fds:
            os.close(self.fds.pop())


def bubblewrap() -> str:
    """Path of bubblewrap. Raises SandboxUnavailable if there is none."""
    path = shutil.which("bwrap") or shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if path is None:
        raise SandboxUnavailable("bubblewrap (bwrap) is not installed", NEEDS_BUBBLEWRAP)
    return path


def bwrap_arguments(
    shown: list[Shown], made: dict[str, int], limits: Limits, seccomp_fd: int, command: list[str]
) -> list[str]:
    """bubblewrap's whole command line. `made` maps paths inside to descriptors whose content is copied there."""
    args = [bubblewrap(), *ISOLATION, "--seccomp", str(seccomp_fd), "--proc", "/proc", "--dir", "/dev"]
    for item in shown:
        args += ["--ro-bind", str(item.source), item.dest]
    for link in LIBRARY_LINKS:
        target = usr_merged(link)
        args += ["--symlink", target, link] if target else ["--ro-bind-try", link, link]
    for device in DEVICES:
        args += ["--dev-bind-try", device, device]
    args += [
        part for folder in hidden_folders() for part in ("--size", "4096", "--tmpfs", folder, "--remount-ro", folder)
    ]
    args += ["--size", str(limits.tmp), "--tmpfs", WORK, "--symlink", f"{WORK}/tmp", "/tmp"]  # noqa: S108
    for path, fd in made.items():
        args += ["--perms", "0444", "--file" if path.startswith(f"{WORK}/") else "--ro-bind-data", str(fd), path]
    return [*args, "--remount-ro", "/", "--chdir", "/", "--", *command]


def init_command(plan_fd: int, report_fd: int) -> list[str]:
    """The first process inside."""
    return [PYTHON, "-I", "-S", "-B", INIT, str(plan_fd), str(report_fd)]


def made_up_files(files: Descriptors, files_in: dict[str, bytes]) -> dict[str, int]:
    """Descriptors of everything inside that is not a file of the host. Raises ValueError for a name with a path."""
    contents = {**MADE_UP, INIT: (Path(__file__).with_name("init.py")).read_bytes()}
    contents.update({f"{WORK}/{plain_name(name)}": content for name, content in files_in.items()})
    return {path: files.add("in", content) for path, content in contents.items()}


def plain_name(name: str) -> str:
    """`name` if it is a single path component. Raises ValueError otherwise."""
    if not name or name in {".", ".."} or "/" in name or "\0" in name or len(name) > 100:
        raise ValueError(f"{name!r} is not a plain file name")
    return name


def staged(shown: list[Shown], stage_dir: str) -> tuple[list[Shown], list[list[str]]]:
    """The view with its sources below `stage_dir`, and the [source, name] pairs that the launcher binds there."""
    moved = [Shown(Path(stage_dir) / f"s{i}", item.dest) for i, item in enumerate(shown)]
    return moved, [[str(item.source), f"s{i}"] for i, item in enumerate(shown)]


def unused_uid() -> int:
    """A user id that exists on this machine for no one and is drawn anew for each run."""
    first, count = _mapped_ids(Path("/proc/self/uid_map").read_text())
    base, span = (UID_BASE, UID_SPAN) if first + count > UID_BASE + UID_SPAN else (first + count // 2, count // 2 - 2)
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in iter(lambda: base + secrets.randbelow(max(span, 1)), None) if uid not in taken)


def _mapped_ids(uid_map: str) -> tuple[int, int]:
    """First id and number of ids of the longest range of a uid_map."""
    ranges = [tuple(map(int, line.split())) for line in uid_map.splitlines()]
    first, _, count = max(ranges, key=lambda r: r[2])
    return first, count


def launcher_plan(
    argv: list[str], stage: list[list[str]], limits: Limits, stage_dir: str, group: str | None
) -> dict[str, Any]:
    """The document that `launcher.py` reads. As root it names an unprivileged user."""
    uid = unused_uid() if os.geteuid() == 0 else None
    return {
        "argv": argv,
        "parent": os.getpid(),
        "uid": uid,
        "stage": stage,
        "stage_dir": stage_dir,
        "group": group,
        "processes": limits.processes + 8,  # bubblewrap's own
    }
