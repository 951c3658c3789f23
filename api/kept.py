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
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.database.models import OutboxEvent
from pipeline.database.unit_of_work import database_now, reading
from pipeline.sweeps.models import CatalogueSnapshot
from pipeline.work.models import Run

REST = 20
"""A value may cost at most one part in so many of the process's time."""
Version = tuple[Any, ...]
Key = tuple[str, str]


class Counted(NamedTuple):
    """A value, and when it was counted (aware UTC, by the database's clock)."""

    value: Any
    at: datetime


@dataclass
class _Entry:
    version: Version
    counted: Counted
    fresh_until: float

    def holds(self, version: Version) -> bool:
        """True if nothing has happened since, or if it is too early to count again."""
        return self.version == version or time.monotonic() < self.fresh_until


@dataclass
class Kept:
    """Counted values by database and name. Safe to use from several threads."""

    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _counting: dict[Key, threading.Thread] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, session: Session, name: str, count: Callable[[], Any]) -> Counted:
        """The value of that name, counted if it has to be."""
        key, version = _key(session, name), _version(session)
        found = self._find(key)
        return (
            found.counted if found is not None and found.holds(version) else self._count(key, version, session, count)
        )

    def soon(self, session: Session, name: str, count: Callable[[Session], Any]) -> Counted | None:
        """The value of that name if it was ever counted; a new one is counted meanwhile, in a thread of its own."""
        key, version = _key(session, name), _version(session)
        found = self._find(key)
        if found is None or not found.holds(version):
            self._begin(key, count)
        return found.counted if found is not None else None

    def wait(self) -> None:
        """Until nothing is being counted: for whoever takes the database away."""
        for thread in list(self._counting.values()):
            thread.join()

    def forget_costs(self) -> None:
        """Count again as soon as anything happens: what was counted first also built its statement, and took longer."""
        with self._lock:
            for entry in self._entries.values():
                entry.fresh_until = 0.0

    def _find(self, key: Key) -> _Entry | None:
        with self._lock:
            return self._entries.get(key)

    def _count(self, key: Key, version: Version, session: Session, count: Callable[[], Any]) -> Counted:
        began = time.monotonic()
        counted = Counted(count(), database_now(session))
        took = time.monotonic() - began
        with self._lock:
            self._entries[key] = _Entry(version, counted, time.monotonic() + REST * took)
        return counted

    def _begin(self, key: Key, count: Callable[[Session], Any]) -> None:
        with self._lock:
            if key in self._counting:
                return
            thread = threading.Thread(target=self._count_alone, args=(key, count), name="kept", daemon=True)
            self._counting[key] = thread
        thread.start()

    def _count_alone(self, key: Key, count: Callable[[Session], Any]) -> None:
        try:
            with reading() as session:
                self._count(key, _version(session), session, partial(count, session))
        finally:
            with self._lock:
                del self._counting[key]


def _key(session: Session, name: str) -> Key:
    return (str(session.get_bind().engine.url), name)


def _version(session: Session) -> Version:
    """Changes with everything that happens: each of these is found by an index."""
    newest = [select(func.max(table.id)).scalar_subquery() for table in (OutboxEvent, Run, CatalogueSnapshot)]
    return tuple(session.execute(select(*newest)).one())
