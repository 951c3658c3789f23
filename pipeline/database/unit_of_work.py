"""Transactions: `unit_of_work()` for writers, `reading()` for readers. Services flush; leaving the block commits.

No transaction may be open while a child runs: `assert_no_transaction()` is called where waits begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session

import pipeline.database.tables  # noqa: F401 - relationships name classes of other domains
from pipeline.database.engine import WRITER, engine_for, looking_engine
from pipeline.database.errors import DatabaseUnavailable, SchemaOutdated, TransactionOpen
from pipeline.database.events import has_events, store_events
from pipeline.database.faults import fault_point

_open_units: ContextVar[int] = ContextVar("open_units", default=0)
_AFTER_COMMIT = "spyre_after_commit"


@contextmanager
def unit_of_work(url: str | None = None) -> Iterator[Session]:
    """A transaction that writes; commits at the end, rolls back on any error.

    Raises `DatabaseUnavailable` or `SchemaOutdated` for what is the database's fault, in one sentence.
    """
    with _transaction(url, WRITER) as session:
        yield session
        if has_events(session):
            store_events(session, database_now(session))
        fault_point("before_commit")
        session.commit()
        fault_point("after_commit")
        hooks: list[Callable[[], None]] = session.info.pop(_AFTER_COMMIT, [])
    for hook in hooks:
        hook()


@contextmanager
def reading(url: str | None = None) -> Iterator[Session]:
    """A transaction that only reads: it never waits for a writer on SQLite. Anything written is rolled back."""
    with _transaction(url, {}) as session:
        yield session


@contextmanager
def looking() -> Iterator[Session]:
    """As `reading`, for what is asked most: on PostgreSQL a statement stands alone and is one round trip."""
    with _guarded(looking_engine()) as session:
        yield session


@contextmanager
def _transaction(url: str | None, options: dict[str, bool]) -> Iterator[Session]:
    with _guarded(engine_for(url)) as session:
        session.connection(execution_options=options)
        yield session


@contextmanager
def _guarded(engine: Engine) -> Iterator[Session]:
    _open_units.set(_open_units.get() + 1)
    try:
        with Session(engine, expire_on_commit=False) as session:
            yield session
    except (OperationalError, InterfaceError) as error:
        raise explain(error) from error
    except DBAPIError as error:
        if "UndefinedTable" in type(error.orig).__name__:
            raise explain(error) from error
        raise
    finally:
        # not `reset`: a web framework may leave the block in another context than it entered it in
        _open_units.set(max(0, _open_units.get() - 1))


def explain(error: DBAPIError) -> DatabaseUnavailable | SchemaOutdated:
    """The database's fault as one sentence of ours."""
    cause = str(error.orig).strip().splitlines()[0]
    if "no such table" in cause or "no such column" in cause or "does not exist" in cause:
        return SchemaOutdated(f"The database lacks what this version needs ({cause}): run `spyre-factory db upgrade`.")
    return DatabaseUnavailable(f"The database cannot be used: {cause}.")


def after_commit(session: Session, hook: Callable[[], None]) -> None:
    """Call `hook` once the transaction of `session` is committed; never if it is rolled back."""
    session.info.setdefault(_AFTER_COMMIT, []).append(hook)


def assert_no_transaction() -> None:
    """Raise `TransactionOpen` if this thread of control is inside a unit of work."""
    if _open_units.get():
        raise TransactionOpen("a child was started inside a transaction; end the transaction first")


def database_now(session: Session) -> datetime:
    """The database's clock (aware UTC). Leases are judged by it, never by a worker's clock."""
    if session.get_bind().dialect.name == "sqlite":
        stamp = session.execute(text("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')")).scalar_one()
        return datetime.fromisoformat(stamp).replace(tzinfo=UTC)
    return session.execute(text("SELECT clock_timestamp()")).scalar_one().astimezone(UTC)


def seconds_from_now(session: Session, seconds: float) -> datetime:
    """The database's clock plus `seconds`."""
    return database_now(session) + timedelta(seconds=seconds)
