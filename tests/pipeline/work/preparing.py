"""A module for `ForkServer`: prepares something that can be seen, and does what its arguments say."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

prepared_in: list[int] = []


def prepare() -> None:
    """Leaves the number of the process that prepared; raises if told to."""
    if "FAIL_TO_PREPARE" in os.environ:
        raise OSError("nothing to prepare with")
    prepared_in.append(os.getpid())


def main(arguments: list[str]) -> None:
    """One of the works below."""
    WORKS[arguments[0]](*arguments[1:])


def tell() -> None:
    """What a child finds."""
    drawn = [random.random(), float(np.random.rand())]
    found = {
        "prepared_in": prepared_in,
        "pid": os.getpid(),
        "env": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109 - what the kernel says
        "temp": tempfile.gettempdir(),
        "drawn": drawn,
        "stdin": sys.stdin.read(),
        "files": sorted(int(n) for n in os.listdir("/proc/self/fd")),  # noqa: PTH208
    }
    sys.stdout.write(json.dumps(found))


def leave_behind() -> None:
    """Starts a process in a session of its own, and ends."""
    code = "import os, time\nos.setsid()\ntime.sleep(300)"
    sys.stdout.write(str(subprocess.Popen([sys.executable, "-c", code]).pid))


def end(how: str) -> None:
    """Ends by a signal or a status."""
    if how.startswith("SIG"):
        os.kill(os.getpid(), getattr(__import__("signal"), how))
    sys.exit(int(how))


def eat() -> None:
    """Fills memory without end."""
    held = []
    while True:
        held.append(os.urandom(1 << 20) * 20)
        time.sleep(0.02)


def raise_it() -> None:
    """Raises."""
    raise IndexError("no such thing")


WORKS: dict[str, Callable[..., None]] = {
    "tell": tell,
    "leave_behind": leave_behind,
    "end": end,
    "eat": eat,
    "raise": raise_it,
    "sleep": lambda: time.sleep(300),
}
