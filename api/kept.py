"""Figures that cost more than a page may: counted again when anything has happened, but not all the time.

They are kept in the process, by database. A value whose counting took long is kept for twenty times as long even though
something has happened since: a running sweep changes them with every step. Pages say when it was counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.database.models import OutboxEvent
from pipeline.database.unit_of_work import database_now
from pipeline.sweeps.models import CatalogueSnapshot
from pipeline.work.models import Run

REST = 20
"""A value may cost at most one part in so many of the process's time."""
Version = tuple[Any, ...]


class Counted(NamedTuple):
    """A value, and when it was counted (aware UTC, by the database's clock)."""

    value: Any
    at: datetime


@dataclass
class _Entry:
    version: Version
    counted: Counted
    fresh_until: float


@dataclass
class Kept:
    """Counted values by database and name. Safe to use from several threads."""

    _entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, session: Session, name: str, count: Callable[[], Any]) -> Counted:
        """The value of that name, counted if it has to be."""
        key = (str(session.get_bind().engine.url), name)
        version = _version(session)
        with self._lock:
            found = self._entries.get(key)
        if found is not None and (found.version == version or time.monotonic() < found.fresh_until):
            return found.counted
        began = time.monotonic()
        counted = Counted(count(), database_now(session))
        took = time.monotonic() - began
        with self._lock:
            self._entries[key] = _Entry(version, counted, time.monotonic() + REST * took)
        return counted


def _version(session: Session) -> Version:
    """Changes with everything that happens: each of these is found by an index."""
    newest = [select(func.max(table.id)).scalar_subquery() for table in (OutboxEvent, Run, CatalogueSnapshot)]
    return tuple(session.execute(select(*newest)).one())
