"""A PostgreSQL and a Redis of one's own, on sockets in temporary folders, for benchmarks and tests.

PostgreSQL refuses to run as root: started by root it runs as `postgres` or, where there is none, `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg

from pipeline.work.process import kill_tree, reaper_command

START_S = 120.0
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
OPTIONS = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60")


def wait_until(claim: Callable[[], bool], seconds: float = START_S) -> None:
    """Wait until `claim()` holds; raises AssertionError with its name if it does not come true."""
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() >= deadline:
            raise AssertionError(f"{claim} did not come true")
        time.sleep(0.05)


def unprivileged_user() -> dict[str, int]:
    """The user and group to drop to when root. Empty for others."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


def postgres_program(name: str) -> str:
    """The path of a program of PostgreSQL, on the path or where Debian puts it; the newest version's."""
    found = shutil.which(name) or next(
        iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return str(found)


def start_postgres(folder: Path) -> subprocess.Popen[bytes]:
    """Make a database cluster in `folder` and start its server, with the role `factory` and its socket there."""
    who = unprivileged_user()
    if who:
        os.chown(folder, who["user"], who["group"])
    initdb = [postgres_program("initdb"), "-D", str(folder / "data"), "-A", "trust", "-U", "factory"]
    subprocess.run([*_drop(who), *initdb, "-E", "UTF8", "--no-sync"], check=True, cwd="/", **QUIET)  # type: ignore[call-overload]
    return serve_postgres(folder)


def serve_postgres(folder: Path) -> subprocess.Popen[bytes]:
    """Start the server of a cluster that is there."""
    argv = [postgres_program("postgres"), "-D", str(folder / "data"), "-k", str(folder), *OPTIONS]
    command = reaper_command([*_drop(unprivileged_user()), *argv])
    return subprocess.Popen(command, cwd="/", **QUIET)  # type: ignore[call-overload,no-any-return]


def _drop(who: dict[str, int]) -> list[str]:
    return ["setpriv", f"--reuid={who['user']}", f"--regid={who['group']}", "--clear-groups", "--"] if who else []


def answers_sql(folder: Path) -> bool:
    """True once the server in `folder` takes connections."""
    try:
        psycopg.connect(host=str(folder), user="factory", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def _copy(source: Path, target: Path) -> None:
    """A folder with its owners: PostgreSQL refuses data of another user."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True, **QUIET)  # type: ignore[call-overload]


class Postgres:
    """A PostgreSQL on a socket; `kill` and `start` keep its data."""

    def __init__(self, like: Path | None = None) -> None:
        """An empty one, or one with the data that `keep` left in a folder."""
        self.folder = Path(tempfile.mkdtemp(prefix="sffp"))
        if like is not None:
            self._begin_like(like)
            return
        self._server = start_postgres(self.folder)
        wait_until(lambda: answers_sql(self.folder))
        with psycopg.connect(host=str(self.folder), user="factory", dbname="postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE factory")

    def _begin_like(self, kept: Path) -> None:
        who = unprivileged_user()
        if who:
            os.chown(self.folder, who["user"], who["group"])
        _copy(kept, self.folder / "data")
        self.start()

    def keep(self, folder: Path) -> None:
        """End it in order and leave its data in `folder`."""
        os.kill(self.pid, signal.SIGINT)
        self._server.wait(START_S)
        _copy(self.folder / "data", folder)

    @property
    def url(self) -> str:
        """Its database."""
        return f"postgresql+psycopg://factory@/factory?host={self.folder}"

    @property
    def pid(self) -> int:
        """Its first process; every connection has one below it."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def processes(self) -> list[int]:
        """All its processes that run now."""
        return [self.pid, *(child.pid for child in psutil.Process(self.pid).children())]

    def analyze(self) -> None:
        """Let the planner know what is in the tables, as autovacuum does after a while."""
        with psycopg.connect(host=str(self.folder), user="factory", dbname="factory", autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    def kill(self) -> None:
        """End it at once, as a power cut would: what was not written to its log is lost."""
        os.kill(self.pid, signal.SIGQUIT)
        self._server.wait(20)

    def start(self) -> None:
        """Start it again with its data."""
        self._server = serve_postgres(self.folder)
        wait_until(lambda: answers_sql(self.folder))

    def close(self) -> None:
        """End it and remove its data."""
        if self._server.poll() is None:
            self.kill()
        shutil.rmtree(self.folder)


class Redis:
    """A Redis on a socket; it keeps nothing."""

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
