"""Insert-or-return: the one way a row that must exist once comes into being, on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from pipeline.database.base import Base

Row = TypeVar("Row", bound=Base)


class Inserted(NamedTuple):
    """The row, and whether this call made it."""

    row: Any
    created: bool


def insert_or_return(session: Session, table: type[Row], key: dict[str, Any], values: dict[str, Any]) -> Inserted:
    """Insert a row unless one with the unique columns `key` exists; return the one that is stored.

    One statement decides, so that two processes never both believe they made it. Column defaults apply. What is there
    already, as in a sweep with nothing changed, is found without it.
    """
    found = session.execute(select(table).filter_by(**key)).scalar_one_or_none()
    if found is not None:
        return Inserted(found, False)
    dialect = session.get_bind().dialect.name
    insert = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)
    statement = insert.values(**key, **values).on_conflict_do_nothing(index_elements=list(key))
    result = session.execute(statement.returning(*inspect(table).primary_key))
    created = result.first() is not None
    row = session.execute(select(table).filter_by(**key)).scalar_one()
    return Inserted(row, created)


def insert_missing(session: Session, table: type[Row], key: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Insert those of `rows` for which no row with the same unique columns `key` exists; many rows, one statement."""
    if rows:
        dialect = session.get_bind().dialect.name
        insert = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)
        session.execute(insert.on_conflict_do_nothing(index_elements=list(key)), list(rows))
