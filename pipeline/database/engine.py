"""One engine per process and URL: SQLite in WAL mode with foreign keys, or PostgreSQL with time limits.

Writers on SQLite begin with BEGIN IMMEDIATE, so that a transaction never has to upgrade its lock and fail half-way. An
engine is never shared across a fork: the process id is part of its key.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url

from pipeline.settings import get_settings

BUSY_TIMEOUT_S = 30
POSTGRES_OPTIONS = "-c lock_timeout=5s -c statement_timeout=30s -c timezone=UTC"
LOOKING: dict[str, Any] = {
    "isolation_level": "AUTOCOMMIT",
    "pool_pre_ping": False,
    "pool_use_lifo": True,
    "pool_reset_on_return": None,  # a statement is its own transaction: there is nothing to roll back
    "connect_args": {"options": f"{POSTGRES_OPTIONS} -c default_transaction_read_only=on", "connect_timeout": 10},
}
WRITER = {"spyre_writer": True}
"""Execution option of connections that will write."""

_engines: dict[tuple[int, str], Engine] = {}


def engine_for(url: str | None = None) -> Engine:
    """The engine of this process for `url` (default: the configured database); made at the first call."""
    text = url or get_settings().sqlalchemy_url
    return _kept((os.getpid(), text), lambda: build_engine(text))


def _kept(key: tuple[int, str], build: Callable[[], Engine]) -> Engine:
    """One engine for all threads: of two that are built at once, the second has no connection yet and is forgotten."""
    found = _engines.get(key)
    return found if found is not None else _engines.setdefault(key, build())


def looking_engine(url: str | None = None) -> Engine:
    """The engine of this process for answers that are read in one statement each: it cannot write.

    On PostgreSQL a statement is its own transaction there, and no connection is tried before it is used. SQLite has
    nothing to save: its engine is the usual one.
    """
    text = url or get_settings().sqlalchemy_url
    return _kept((os.getpid(), f"looking {text}"), lambda: _build_looking(text))


def _build_looking(url: str) -> Engine:
    is_sqlite = make_url(url).get_backend_name() == "sqlite"
    return engine_for(url) if is_sqlite else build_engine(url, **LOOKING)


def dispose_engines() -> None:
    """Close every connection of this process; the next use opens new ones. Inherited engines are dropped unclosed."""
    for (pid, _), engine in list(_engines.items()):
        engine.dispose(close=pid == os.getpid())
    _engines.clear()


def build_engine(url: str, **options: Any) -> Engine:
    """A new engine; `postgresql://` means psycopg 3."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite_engine(url, options)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    arguments = {"options": POSTGRES_OPTIONS, "connect_timeout": 10}
    return create_engine(parsed, **{"pool_pre_ping": True, "pool_size": 5, "connect_args": arguments, **options})


def _sqlite_engine(url: str, options: dict[str, Any]) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S}, **options)
    event.listen(engine, "connect", _prepare_sqlite_connection)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite_connection(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # SQLAlchemy's begin event decides, not the driver
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "foreign_keys = ON", "synchronous = NORMAL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writer = connection.get_execution_options().get("spyre_writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")
