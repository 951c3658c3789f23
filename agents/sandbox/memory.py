"""The memory limit over a whole run: a cgroup (version 2) where one may be made, beside the limits that always hold.

Always in force are RLIMIT_AS per process and the watchdog of `init.py` on the resident size of the tree. A cgroup is
used only where the memory controller is delegated: the process's own group, or the one above it, offers it and is
writable. Groups of version 1 know no delegation and are left alone.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ALWAYS = "RLIMIT_AS per process and a watchdog on the resident size of the tree"
CGROUP_ROOT = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class MemoryGroup:
    """The group of one run, or none (`path` is None)."""

    path: Path | None = None

    @property
    def in_force(self) -> str:
        """The limits in force, in words."""
        return f"cgroup v2 memory.max, {ALWAYS}" if self.path else ALWAYS

    @property
    def procs(self) -> str | None:
        """The file a process writes "0" to in order to join."""
        return str(self.path / "cgroup.procs") if self.path else None

    def has_killed(self) -> bool:
        """True if the kernel ended a process of the group for its memory."""
        if self.path is None:
            return False
        events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
        return int(events.get("oom_kill", 0)) > 0


@contextmanager
def memory_group(max_bytes: int, root: Path = CGROUP_ROOT, own: Path = OWN_GROUP) -> Iterator[MemoryGroup]:
    """A group with `memory.max` set, removed at the end; an empty one where none can be made."""
    parent = _delegated(root, own)
    path = parent / f"spyre-sandbox-{os.getpid()}-{secrets.token_hex(4)}" if parent else None
    try:
        yield MemoryGroup(_made(path, max_bytes))
    finally:
        if path:
            _remove(path)


def _delegated(root: Path, own: Path) -> Path | None:
    """The nearest group of ours that hands the memory controller down and lets us write."""
    line = next((x for x in own.read_text().splitlines() if x.startswith("0::/")), None)
    if line is None or not (root / "cgroup.controllers").exists():
        return None
    here = root / line.removeprefix("0::/")
    return next((group for group in (here, here.parent) if group.is_relative_to(root) and _offers(group)), None)


def _offers(group: Path) -> bool:
    control = group / "cgroup.subtree_control"
    if not control.exists() or "memory" not in control.read_text().split():
        return False
    return os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)


def _made(path: Path | None, max_bytes: int) -> Path | None:
    """The new group with its limit, None if the kernel does not let us after all."""
    if path is None:
        return None
    try:
        path.mkdir()
        (path / "memory.max").write_text(str(max_bytes))
    except OSError:
        return None
    return path


def _remove(path: Path) -> None:
    """Remove the group; its processes have been killed, so it empties within moments."""
    for _ in range(50):
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return
