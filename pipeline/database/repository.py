"""Every query on sessions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pipeline.database.models import LoginSession, SessionKind


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
