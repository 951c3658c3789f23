"""Getting an installation ready to run: data directory, database, bundled adapters, and who is in charge of it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import tempfile
from pathlib import Path
from typing import IO

from pipeline.database.accounts import LOCAL_REVIEWER, issue, local_reviewer
from pipeline.database.errors import DataDirUnusable
from pipeline.database.facts import mark_demo
from pipeline.database.migrate import upgrade
from pipeline.database.models import SessionKind
from pipeline.database.unit_of_work import unit_of_work
from pipeline.releases.service import bundled_manifests, sync_bundled
from pipeline.releases.signing import signing_key
from pipeline.settings import Settings
from pipeline.work import chores, repository
from pipeline.work.broker import empty_broker, is_embedded, prepare_broker
from pipeline.work.errors import PortBusy

LOCK = "up.lock"


def prepare_data_dir(settings: Settings) -> None:
    """Make the data directory and prove that it can be written. Raises `DataDirUnusable`, one sentence."""
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 65_536)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise DataDirUnusable(
            f"The data directory {folder} cannot be written ({error.strerror}): choose another with "
            f"SPYRE_FACTORY_DATA_DIR, or make room."
        ) from error


def prepare_installation(settings: Settings) -> None:
    """Data directory, signing key, database, bundled adapters, the local reviewer, the broker. Safe to repeat.

    Raises `DataDirUnusable`, `DatabaseUnavailable`, `ManifestUnreadable`: one sentence each.
    """
    prepare_data_dir(settings)
    signing_key(settings)
    upgrade(settings.sqlalchemy_url)
    manifests = bundled_manifests()
    with unit_of_work() as session:
        local_reviewer(session)
        sync_bundled(session, manifests)
        if settings.demo:
            mark_demo(session, "SPYRE_FACTORY_DEMO was set")
    prepare_broker(settings)


def login_link(settings: Settings) -> str:
    """A new one-time login link for the local reviewer."""
    with unit_of_work() as session:
        token = issue(session, local_reviewer(session), SessionKind.LOGIN, f"{LOCAL_REVIEWER} at start").token
    return f"{dashboard_url(settings)}/login?t={token}"


def dashboard_url(settings: Settings) -> str:
    """Where the dashboard is."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


def take_charge(settings: Settings) -> IO[bytes] | None:
    """Hold the data directory's lock while this file stays open; None if another process is in charge.

    Whoever gets it knows that no worker of this data directory is alive: with the embedded broker, leases and messages
    left by killed ones are given back at once. The kernel frees the lock when the process dies.
    """
    file = (settings.data_dir / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise DataDirUnusable(f"Cannot lock {settings.data_dir / LOCK}: {error.strerror}.") from error
    if is_embedded(settings):
        give_back_everything(settings)
    return file


def give_back_everything(settings: Settings) -> None:
    """Return every claimed run to the queue, forget every message. Only for who is in charge of an embedded broker."""
    empty_broker(settings)
    with unit_of_work() as session:
        repository.free_leases_of(session, "")
        repository.mark_unsent(session, None)
        chores.free_leases(session)


def check_port(settings: Settings) -> None:
    """Raise `PortBusy` if the dashboard's port cannot be bound."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise PortBusy(
                f"Port {settings.port} of {settings.host} cannot be used ({error.strerror}): give another with --port."
            ) from error


def log_path(settings: Settings, name: str) -> Path:
    """Where a process's output goes."""
    return settings.data_dir / "logs" / f"{name}.log"
