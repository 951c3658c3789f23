"""Facts about the database itself: is it a demonstration, is the queue paused, which installation is it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ScalarSelect, bindparam, select
from sqlalchemy.orm import Session

from pipeline.database.models import SettingRow
from pipeline.database.prepared import Prepared

DEMO = "demo"
QUEUE_PAUSED = "queue_paused"
DRAFTING_STOPPED = "drafting_stopped"


def get_fact(session: Session, key: str, default: Any = None) -> Any:
    """The stored value of `key`."""
    row = _FACT.run(session, key=key).first()
    return default if row is None else row[0]


_FACT = Prepared(lambda: select(SettingRow.value).where(SettingRow.key == bindparam("key")))


def set_fact(session: Session, key: str, value: Any, reason: str = "") -> None:
    """Store `value` under `key`, in place of what was there."""
    row = session.get(SettingRow, key)
    if row is None:
        session.add(SettingRow(key=key, value=value, reason=reason))
    else:
        row.value, row.reason = value, reason
    session.flush()


def is_demo(session: Session) -> bool:
    """True if this database is a demonstration: its figures are never published. The mark is never taken back."""
    return bool(get_fact(session, DEMO, False))


def demo_mark() -> ScalarSelect[Any]:
    """What `is_demo` reads, for statements that answer something else beside it; NULL stands for no."""
    return select(SettingRow.value).where(SettingRow.key == DEMO).scalar_subquery()


def mark_demo(session: Session, reason: str) -> None:
    """Mark the database as a demonstration, for good."""
    set_fact(session, DEMO, True, reason)
