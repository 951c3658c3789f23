"""The one table of long-running commands: `up`, `sweep`, docker-compose and the Dockerfile take them from here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.settings import Settings


@dataclass(frozen=True)
class Command:
    """A process of the service. `argv` begins with `python`; `service` is its name in docker-compose.yml."""

    name: str
    service: str
    argv: Callable[[Settings], list[str]]


def _api(settings: Settings) -> list[str]:
    where = ["--host", settings.host, "--port", str(settings.port)]
    return [
        "python",
        "-m",
        "uvicorn",
        "--factory",
        "api.app:create_app",
        *where,
        "--no-server-header",
        "--timeout-graceful-shutdown",
        "2",
        "--log-level",
        "warning",
    ]


def _worker(settings: Settings) -> list[str]:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    pool = ["--pool", "prefork", "--concurrency", str(settings.workers), "-O", "fair"]
    return [
        "python",
        "-m",
        "celery",
        "-A",
        "pipeline.work.celery_app",
        "worker",
        *pool,
        *quiet,
        "--loglevel",
        "WARNING",
    ]


def _dispatcher(_settings: Settings) -> list[str]:
    return ["python", "-m", "pipeline.work.dispatcher"]


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("api", "api", _api),
        Command("worker", "worker", _worker),
        Command("dispatcher", "beat", _dispatcher),
    )
}
WORKERS = ("worker", "dispatcher")
"""What has to run for stages to be done."""


def argv_of(name: str, settings: Settings) -> list[str]:
    """The command line of a process of this installation, with this interpreter."""
    _, *rest = COMMANDS[name].argv(settings)
    return [sys.executable, *rest]


def shell_words(name: str, settings: Settings) -> list[str]:
    """The command line as docker-compose.yml and the Dockerfile hold it (`python` from the image's path)."""
    return COMMANDS[name].argv(settings)
