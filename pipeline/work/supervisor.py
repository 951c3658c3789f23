"""Starts processes of the command table, starts them again when they fall, and ends them all within `STOP_S` seconds.

Each runs under the reaper, so that SIGKILL of this process takes them and all their children along.
"""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pipeline.settings import Settings
from pipeline.work.commands import argv_of
from pipeline.work.errors import WorkersUnavailable
from pipeline.work.installation import log_path
from pipeline.work.process import kill_tree, reaper_command

GRACE_S = 5.0
"""A worker gives back what it holds within this; then it is killed with its tree."""
STOP_S = 8.0
MAX_FALLS = 5
FALLS_WITHIN_S = 60.0
LOG_LIMIT_BYTES = 20 * 1024 * 1024


class Service:
    """One process of the table, with its log and the times it fell."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name, self._argv, self._log, self._env = name, list(argv), log, env
        self._falls: deque[float] = deque(maxlen=MAX_FALLS)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        too_long = self._log.exists() and self._log.stat().st_size > LOG_LIMIT_BYTES
        with self._log.open("wb" if too_long else "ab") as log:
            return subprocess.Popen(
                reaper_command(self._argv, grace_s=GRACE_S),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )

    def keep_alive(self) -> None:
        """Start it again if it has ended. Raises `WorkersUnavailable` if it falls `MAX_FALLS` times a minute."""
        if self.process.poll() is None:
            return
        now = time.monotonic()
        self._falls.append(now)
        if len(self._falls) == MAX_FALLS and now - self._falls[0] < FALLS_WITHIN_S:
            raise WorkersUnavailable(f"The {self.name} ends again and again: {self.last_line()} (see {self._log}).")
        time.sleep(min(0.2 * len(self._falls), 1.0))
        self.process = self._start()

    def last_line(self) -> str:
        """The last line of its log."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it left no message")


class Supervisor:
    """A set of services. A context manager: leaving it ends them all."""

    def __init__(self, settings: Settings, names: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.services: list[Service] = []
        try:
            for name in names:
                self.services.append(Service(name, argv_of(name, settings), log_path(settings, name), env))
        except OSError as error:
            self.stop()
            raise WorkersUnavailable(f"Cannot start the {name}: {error.strerror}.") from error

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    def keep_alive(self) -> None:
        """Start what has ended again."""
        for service in self.services:
            service.keep_alive()

    def stop(self) -> None:
        """End every service: asked first, killed with its tree when its grace is over."""
        running = [service.process for service in self.services if service.process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                kill_tree(process)
