"""Every query on the shared tables: events, sessions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from pipeline.database.models import LoginSession, OutboxEvent, SessionKind


def events_after(session: Session, last_id: int, limit: int = 100) -> list[OutboxEvent]:
    """Events with an id above `last_id`, oldest first."""
    query = select(OutboxEvent).where(OutboxEvent.id > last_id).order_by(OutboxEvent.id).limit(limit)
    return list(session.scalars(query))


def last_event_id(session: Session) -> int:
    """The id of the newest event; 0 if there is none."""
    return session.scalar(select(func.max(OutboxEvent.id))) or 0


def find_session(session: Session, token_hash: str, kind: SessionKind) -> LoginSession | None:
    """The session of this kind whose secret has this hash, live or not."""
    return session.scalar(select(LoginSession).where(LoginSession.token_hash == token_hash, LoginSession.kind == kind))


def use_login(session: Session, token_hash: str, now: datetime) -> int | None:
    """Mark a live login link as used; the principal's number, or None if it is unknown, used, revoked or expired."""
    statement = (
        update(LoginSession)
        .where(LoginSession.token_hash == token_hash, LoginSession.kind == SessionKind.LOGIN)
        .where(LoginSession.used_at.is_(None), LoginSession.revoked_at.is_(None), LoginSession.expires_at > now)
        .values(used_at=now)
        .returning(LoginSession.principal_id)
    )
    return session.execute(statement).scalar_one_or_none()
