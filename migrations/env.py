"""Alembic's environment: runs the migrations against the URL given by `pipeline.database.migrate`."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import Engine, event, text

from pipeline.database.base import UtcDateTime
from pipeline.database.engine import WRITER, build_engine
from pipeline.database.tables import Base
from pipeline.settings import get_settings

TIME_LIMITS = ("SET lock_timeout = '4s'", "SET statement_timeout = '30s'")
"""A migration that cannot get its locks at once fails and is run again, rather than blocking the service."""
CHECK = "PRAGMA foreign_key_check"
ADVISORY_LOCK = 7_319_884_201
"""Two processes that start together upgrade one after the other."""


def render_item(kind: str, item: object, _context: object) -> str | bool:
    """Migrations name plain SQL types only: they must still run when our classes have moved."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    return False


def migrating_engine(url: str) -> Engine:
    """An engine for migrations: SQLite changes a table by making it anew, which its foreign keys would refuse."""
    engine = build_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _without_foreign_keys)
    return engine


def _without_foreign_keys(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA foreign_keys = OFF")


def run() -> None:
    """Run the migrations in one transaction. On SQLite every reference is checked before it is committed."""
    engine = migrating_engine(context.config.attributes.get("url") or get_settings().sqlalchemy_url)
    try:
        with engine.connect().execution_options(**WRITER) as connection:
            if connection.dialect.name == "postgresql":
                for statement in TIME_LIMITS:
                    connection.execute(text(statement))
                connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
            context.configure(
                connection=connection,
                target_metadata=Base.metadata,
                compare_type=True,
                render_item=render_item,
                render_as_batch=context.config.attributes.get("batch", True),
            )
            with context.begin_transaction():
                context.run_migrations()
            if connection.dialect.name == "sqlite" and (broken := connection.execute(text(CHECK)).first()):
                raise RuntimeError(f"the migration would leave a broken reference: {tuple(broken)}")
            connection.commit()
    finally:
        engine.dispose()


run()
