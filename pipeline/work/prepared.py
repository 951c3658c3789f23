"""Children forked from a process that has imported torch, transformers and the stages: `run_child` without its start.

Starting Python with them costs more than most stages do. One such process serves one worker slot, or one command; it is
started when it is first needed, and again when it has died.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any

from pipeline.database.unit_of_work import assert_no_transaction
from pipeline.errors import EnvironmentProblem
from pipeline.work import fork_server
from pipeline.work.process import ADDRESS_SPACE_SLACK_MB, ChildResult, kill_tree, reaper_command, watched

START_S = 300.0
START_POLL_S = 0.25


class ForkServer:
    """Runs children of `module` (`fork_server.Module`); `env` is what the preparing process is started with.

    `env` must hold no secret: every child could read it. A context manager: leaving it ends the process.
    """

    def __init__(self, module: str, env: Mapping[str, str]) -> None:
        self._module = module
        self._env = {**env, "OPENBLAS_NUM_THREADS": "1"}  # it starts its threads when numpy is imported
        self._process: subprocess.Popen[bytes] | None = None
        self._door: socket.socket | None = None
        self._pid = 0

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def run(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float,
        memory_mb: int,
        env: Mapping[str, str],
        cwd: Path,
        network: bool = True,
        tick: Callable[[], None] | None = None,
        tick_s: float = 15.0,
    ) -> ChildResult:
        """As `run_child`, of `main(arguments)` of the module; the time to prepare counts in no limit.

        Variables that libraries read when they are imported are those of the server. Raises EnvironmentProblem if the
        server does not get ready, TransactionOpen inside a unit of work, and what `tick` raises.
        """
        assert_no_transaction()
        door = self._opened(tick, tick_s)
        limits = {"address_space_mb": memory_mb + ADDRESS_SPACE_SLACK_MB, "no_network": not network}
        task = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd), "limits": limits}
        with TemporaryFile() as out, TemporaryFile() as err:
            child = _Child(self, self._pid, door)
            child.begin(json.dumps(task).encode(), (out.fileno(), err.fileno()))
            return watched(child, (out, err), timeout_s, memory_mb, tick, tick_s)

    def close(self) -> None:
        """End the process and what it runs."""
        if self._door is not None:
            self._door.close()
        if self._process is not None:
            kill_tree(self._process)
        self._process = self._door = None

    def _opened(self, tick: Callable[[], None] | None, tick_s: float) -> socket.socket:
        if self._door is not None and self._process is not None and self._process.poll() is None:
            return self._door
        self.close()
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-m", fork_server.__name__, str(its.fileno()), self._module]
        with its:
            self._process = subprocess.Popen(
                reaper_command(argv), stdin=subprocess.DEVNULL, env=self._env, pass_fds=[its.fileno()]
            )
        self._door = ours
        self._pid = self._ready(ours, tick, tick_s)
        return ours

    def _ready(self, door: socket.socket, tick: Callable[[], None] | None, tick_s: float) -> int:
        began = ticked = time.monotonic()
        while not select.select([door], [], [], START_POLL_S)[0]:
            now = time.monotonic()
            if now - began > START_S:
                self.close()
                raise EnvironmentProblem(f"the process that prepares {self._module} was not ready in {START_S:g} s")
            if tick is not None and now - ticked >= tick_s:
                tick()
                ticked = now
        answer = _received(door)
        if answer is None:
            self.close()
            raise EnvironmentProblem(f"the process that prepares {self._module} ended; its log says why")
        return int(answer["ready"])


class _Child:
    """What `subprocess.Popen` is for a started process, for the one child of a server. Its reaper is the server."""

    def __init__(self, server: ForkServer, pid: int, door: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server, self._door = server, door

    def begin(self, task: bytes, files: tuple[int, int]) -> None:
        """Sends the task. A server that has died meanwhile is a child that was killed."""
        try:
            socket.send_fds(self._door, [task], list(files))
        except OSError:
            self._lost()

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        if self.returncode is None and select.select([self._door], [], [], 0)[0]:
            self._hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._door], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("forked child", timeout or 0.0)
            self._hear()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Sends a signal to its reaper, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """Ends it, and the server with it."""
        self._lost()

    def _hear(self) -> None:
        answer = _received(self._door)
        if answer is None:
            self._lost()
        else:
            self.returncode = int(answer["status"])

    def _lost(self) -> None:
        self._server.close()
        self.returncode = -signal.SIGKILL


def _received(door: socket.socket) -> dict[str, Any] | None:
    """One packet, None at its end."""
    try:
        packet = door.recv(fork_server.TASK_BYTES)
    except ConnectionError:
        return None
    answer: dict[str, Any] | None = json.loads(packet) if packet else None
    return answer
