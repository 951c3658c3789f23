"""A process that has imported what stages need and forks a child for each.

`python -m pipeline.work.fork_server SOCKET MODULE` is how `prepared.py` starts it.

A module has `prepare()`, which imports, and `main(arguments)`, which is one child's work. Tasks come one at a time over
the socket, each with two files for what the child prints; the answer is how it ended. While a child runs this process
is its reaper (`reaper.py`): nothing of the child's outlives it.

A fork takes one thread along and every lock as it is, so nothing is computed here and no thread is started.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import traceback
from argparse import Namespace
from typing import Any, NoReturn, Protocol, cast

import numpy as np

from pipeline.work import reaper

TASK_BYTES = 131_072
"""A task is one packet: the child's arguments, folder, limits and environment."""


class Module(Protocol):
    """What is forked for."""

    def prepare(self) -> None:
        """Imports everything, computes nothing."""

    def main(self, arguments: list[str]) -> None:
        """One child's work."""


def serve(door: socket.socket, module: Module) -> None:
    """Fork a child per task until the other side closes. Raises RuntimeError if this process has more threads."""
    module.prepare()
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - OpenMP's count too, which `threading` does not know
    if threads > 1 or threading.active_count() > 1:
        raise RuntimeError(f"a process with {threads} threads must not fork")
    signal.signal(reaper.KILL_NOW, lambda *_: None)  # meant for a child that has ended meanwhile
    reaper.prctl(reaper.PR_SET_CHILD_SUBREAPER, 1)
    door.send(json.dumps({"ready": os.getpid()}).encode())
    while True:
        packet, files, _, _ = socket.recv_fds(door, TASK_BYTES, 2)
        if not packet:
            return
        status = run(json.loads(packet), files, door, module)
        door.send(json.dumps({"status": status}).encode())


def run(task: dict[str, Any], files: list[int], door: socket.socket, module: Module) -> int:
    """One child to its end, with all that it started; its exit status, negative for a signal."""
    options = Namespace(**task["limits"], parent=os.getppid(), grace=5.0)
    signal.pthread_sigmask(signal.SIG_BLOCK, reaper.WATCHED)
    child = os.fork()
    if child == 0:
        become(task, files, door, module, options)
    for file in files:
        os.close(file)
    status = reaper.watch(child, options)
    reaper.kill_descendants()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, reaper.WATCHED)
    return os.waitstatus_to_exitcode(status)


def become(task: dict[str, Any], files: list[int], door: socket.socket, module: Module, options: Namespace) -> NoReturn:
    """In the child: what a started process would find, then the work. Nothing of this process's is cleaned up here."""
    status = 1
    try:
        signal.signal(reaper.KILL_NOW, signal.SIG_DFL)
        door.close()
        for file, number in zip(files, (1, 2), strict=True):
            os.dup2(file, number)
            os.close(file)
        reaper.enter(options)
        start_anew(task)
        module.main(task["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        status = 0
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - the end of this process: what was raised is told as an exit status
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def start_anew(task: dict[str, Any]) -> None:
    """The environment, folder and random numbers of a process of its own. No two children draw the same numbers."""
    os.environ.clear()
    os.environ.update(task["env"])
    os.chdir(task["cwd"])
    tempfile.tempdir = None
    random.seed()
    np.random.seed()


def main() -> None:
    """Serve on the socket whose number is the first argument, for the module that the second names."""
    door = socket.socket(fileno=int(sys.argv[1]))
    door.set_inheritable(False)
    os.dup2(2, 1)
    serve(door, cast(Module, importlib.import_module(sys.argv[2])))


if __name__ == "__main__":
    main()
