"""An installation with servers of its own that may be stopped, started and cut off, and the processes of its work."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import Postgres, Redis
from pipeline.database.engine import dispose_engines
from pipeline.settings import Settings, get_settings
from pipeline.work.commands import argv_of
from pipeline.work.process import kill_tree, reaper_command


@contextmanager
def settings_of(**given: object) -> Iterator[Settings]:
    """These settings in the environment, as an operator would give them; afterwards all is as before."""
    before = dict(os.environ)
    os.environ.update({f"SPYRE_FACTORY_{key.upper()}": str(value) for key, value in given.items()})
    get_settings.cache_clear()
    try:
        yield get_settings()
    finally:
        dispose_engines()
        os.environ.clear()
        os.environ.update(before)
        get_settings.cache_clear()


class Process:
    """A process of the command table, with settings of its own on top; ended with everything below it."""

    def __init__(self, name: str, log: Path, **settings: str) -> None:
        self.name, self.log = name, log
        env = {**os.environ, **{f"SPYRE_FACTORY_{key.upper()}": value for key, value in settings.items()}}
        values = {key: value for key, value in settings.items() if key == "port"}
        given = get_settings().model_copy(update={key: int(value) for key, value in values.items()})
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                reaper_command(argv_of(name, given), grace_s=4.0),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=env,
            )

    @property
    def pid(self) -> int:
        """The process itself, not the reaper above it; 0 if it has ended."""
        import psutil

        try:
            return next((child.pid for child in psutil.Process(self._process.pid).children()), 0)
        except psutil.NoSuchProcess:
            return 0

    def kill(self) -> None:
        """SIGKILL to the process; the reaper takes what it leaves behind."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait(20)

    def stop(self) -> None:
        """SIGTERM, as an operator would."""
        self._process.terminate()
        self._process.wait(20)

    def has_ended(self) -> bool:
        """True once it is gone."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End it whatever it does."""
        kill_tree(self._process)


class Installation:
    """The servers and processes of one benchmark or test."""

    def __init__(self, settings: Settings, postgres: Postgres | None, redis: Redis | None) -> None:
        self.settings, self._postgres, self._redis = settings, postgres, redis
        self.processes: list[Process] = []

    @property
    def postgres(self) -> Postgres:
        """Its PostgreSQL."""
        assert self._postgres is not None
        return self._postgres

    @property
    def redis(self) -> Redis:
        """Its Redis."""
        assert self._redis is not None
        return self._redis

    def start(self, name: str, **settings: str) -> Process:
        """Start a process of the command table."""
        log = self.settings.data_dir / "logs" / f"{name}-{len(self.processes)}.log"
        log.parent.mkdir(exist_ok=True)
        self.processes.append(Process(name, log, **settings))
        return self.processes[-1]

    def close(self) -> None:
        """End everything."""
        for process in self.processes:
            process.close()
        dispose_engines()
        for server in (self._postgres, self._redis):
            if server is not None:
                server.close()
