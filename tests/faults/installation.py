"""An installation with servers of its own that a test may stop, start and cut off: PostgreSQL, Redis, workers, APIs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

from pipeline.database.engine import dispose_engines
from pipeline.settings import Settings, get_settings
from pipeline.work.commands import argv_of
from pipeline.work.process import kill_tree, reaper_command

from ..pipeline.conftest import (
    answers_sql,
    postgres_program,
    start_postgres,
    unprivileged_user,
    wait_until,
)

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Postgres:
    """A PostgreSQL of this test on a socket; `restart` keeps its data."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sffp"))
        self._server = start_postgres(self.folder)
        wait_until(lambda: answers_sql(self.folder))
        with psycopg.connect(host=str(self.folder), user="factory", dbname="postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE factory")

    @property
    def url(self) -> str:
        """Its database."""
        return f"postgresql+psycopg://factory@/factory?host={self.folder}"

    def kill(self) -> None:
        """End it at once, as a power cut would: what was not written to its log is lost."""
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        self._server.wait(20)

    def start(self) -> None:
        """Start it again with its data."""
        who = unprivileged_user()
        drop = ["setpriv", f"--reuid={who['user']}", f"--regid={who['group']}", "--clear-groups", "--"] if who else []
        options = ["-k", str(self.folder), "-c", "listen_addresses=", "-c", "max_connections=60"]
        argv = [*drop, postgres_program("postgres"), "-D", str(self.folder / "data"), *options]
        self._server = subprocess.Popen(reaper_command(argv), cwd="/", **QUIET)  # type: ignore[call-overload]
        wait_until(lambda: answers_sql(self.folder))

    def close(self) -> None:
        """End it and remove its data."""
        if self._server.poll() is None:
            self.kill()
        shutil.rmtree(self.folder)


class Redis:
    """A Redis of this test on a socket; it keeps nothing."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sffr"))
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis+socket://{self.folder / 's'}"

    def start(self) -> None:
        """Start it, empty."""
        options = ["--port", "0", "--unixsocket", str(self.folder / "s"), "--save", "", "--appendonly", "no"]
        self._server = subprocess.Popen(reaper_command(["redis-server", *options]), cwd=self.folder, **QUIET)  # type: ignore[call-overload]
        wait_until(lambda: (self.folder / "s").exists())

    def kill(self) -> None:
        """End it at once; everything in it is gone."""
        kill_tree(self._server)
        (self.folder / "s").unlink(missing_ok=True)

    def flush(self) -> None:
        """Let it forget everything."""
        import redis

        client = redis.Redis(unix_socket_path=str(self.folder / "s"))
        client.flushall()
        client.close()

    def close(self) -> None:
        """End it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder)


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
    """The servers and processes of one test."""

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
