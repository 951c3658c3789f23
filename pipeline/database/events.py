"""The outbox: what happened is written in the transaction that made it happen, and read in order afterwards."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.models import OutboxEvent
from pipeline.database.repository import events_after as events_after
from pipeline.database.repository import last_event_id as last_event_id
from pipeline.database.unit_of_work import database_now


def emit(
    session: Session,
    topic: str,
    subject_kind: str,
    subject_id: int | str,
    *,
    request_id: str | None = None,
    **payload: Any,
) -> None:
    """Record that `topic` happened to a subject; `payload` is small plain data."""
    session.add(
        OutboxEvent(
            topic=topic,
            subject_kind=subject_kind,
            subject_id=str(subject_id),
            request_id=request_id,
            payload=payload,
            created_at=database_now(session),
        )
    )
