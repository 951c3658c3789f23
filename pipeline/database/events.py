"""The outbox: what happened, numbered per stream without gaps, written in the transaction that made it happen.

A stream is what somebody follows: a request, a sweep, a candidate. Numbers are drawn under the lock of the stream's
row at the very end of a transaction, so an event can be read only after every lower number of its stream: a reader
that asks for what follows number N never misses one, on PostgreSQL either. Rows of streams are locked in one order
after everything else the transaction needs, so writers never wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from pipeline.database.models import EventStream, OutboxEvent

FOLLOWED = frozenset({"request", "sweep", "candidate", "adapter"})
"""Kinds of subjects that have a stream of their own; what happens to others is told to who waits for it."""
_PENDING = "spyre_events"


@dataclass(frozen=True)
class Pending:
    """An event of this transaction that has no number yet."""

    stream: str
    values: dict[str, Any]


def stream_of(kind: str, subject_id: int | str) -> str:
    """The name of a subject's stream."""
    return f"{kind}:{subject_id}"


def emit(
    session: Session,
    topic: str,
    subject_kind: str,
    subject_id: int | str,
    *,
    request_id: str | None = None,
    sweeps: Iterable[int] = (),
    **payload: Any,
) -> None:
    """Record that `topic` happened to a subject, for its stream, its request's and those of `sweeps`.

    `payload` is small plain data. Nothing is stored if the transaction is rolled back.
    """
    values = {
        "topic": topic,
        "subject_kind": subject_kind,
        "subject_id": str(subject_id),
        "request_id": request_id,
        "payload": payload,
    }
    told = {stream_of("sweep", number) for number in sweeps}
    told |= {stream_of("request", request_id)} if request_id else set()
    if subject_kind in FOLLOWED or not told:
        told.add(stream_of(subject_kind, subject_id))
    pending: list[Pending] = session.info.setdefault(_PENDING, [])
    pending.extend(Pending(stream, values) for stream in told)


def store_events(session: Session, now: datetime) -> None:
    """Number and store what was emitted. Called once, as the last thing before the commit."""
    pending: list[Pending] = sorted(session.info.pop(_PENDING, []), key=lambda event: event.stream)
    for stream, events in groupby(pending, key=lambda event: event.stream):
        found = list(events)
        first = _draw_numbers(session, stream, len(found))
        rows = (dict(e.values, stream=stream, number=n, created_at=now) for n, e in enumerate(found, start=first))
        session.add_all(OutboxEvent(**row) for row in rows)
    session.flush()


def has_events(session: Session) -> bool:
    """True if the transaction has emitted anything."""
    return bool(session.info.get(_PENDING))


def _draw_numbers(session: Session, stream: str, count: int) -> int:
    """The first of `count` numbers of a stream; the stream's row stays locked until the transaction ends."""
    dialect = session.get_bind().dialect.name
    insert = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(EventStream)
    grown = {"last_number": EventStream.last_number + count}
    statement = insert.values(stream=stream, last_number=count).on_conflict_do_update(
        index_elements=["stream"], set_=grown
    )
    return int(session.execute(statement.returning(EventStream.last_number)).scalar_one()) - count + 1


def events_of(session: Session, stream: str, after: int = 0, limit: int = 100) -> list[OutboxEvent]:
    """The events of a stream whose numbers follow `after`, in order."""
    query = select(OutboxEvent).where(OutboxEvent.stream == stream, OutboxEvent.number > after)
    return list(session.scalars(query.order_by(OutboxEvent.number).limit(limit)))


def last_number(session: Session, stream: str) -> int:
    """The number of the newest event of a stream; 0 if it has none."""
    found = session.get(EventStream, stream)
    return found.last_number if found else 0
