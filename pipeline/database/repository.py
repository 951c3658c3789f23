"""Every query on sessions."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, delete, func, select, update
from sqlalchemy.orm import Session

from pipeline.database.models import LoginSession, Principal, PrincipalRole, SessionKind
from pipeline.database.prepared import Prepared


def find_session(session: Session, token_hash: str, kind: SessionKind) -> LoginSession | None:
    """The session of this kind whose secret has this hash, live or not."""
    return session.scalar(select(LoginSession).where(LoginSession.token_hash == token_hash, LoginSession.kind == kind))


class Known(NamedTuple):
    """Who a live secret belongs to. `roles` are those stored, with commas between."""

    principal_id: int
    name: str
    roles: str | None
    csrf_token: str | None
    expires_at: datetime


def _known() -> Select[Any]:
    roles = select(func.aggregate_strings(PrincipalRole.role, ",")).where(PrincipalRole.principal_id == Principal.id)
    stored = roles.correlate(Principal).scalar_subquery()
    query = select(
        LoginSession.principal_id, Principal.name, stored, LoginSession.csrf_token, LoginSession.expires_at
    ).join(Principal, Principal.id == LoginSession.principal_id)
    query = query.where(LoginSession.kind == bindparam("kind"), LoginSession.revoked_at.is_(None))
    query = query.where(LoginSession.expires_at > func.current_timestamp())
    return query.where(LoginSession.token_hash == bindparam("token_hash"))


_KNOWN = Prepared(_known)


def find_known(session: Session, token_hash: str, kind: SessionKind) -> Known | None:
    """Whose cookie or bearer token has this hash; None if it is unknown, revoked or, by the database, expired."""
    row = _KNOWN.run(session, token_hash=token_hash, kind=kind.value).first()
    return Known._make(row) if row else None


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


def principal_named(session: Session, name: str) -> Principal | None:
    """The principal of that name."""
    return session.scalar(select(Principal).where(Principal.name == name))


def drop_other_roles(session: Session, principal_id: int, kept: Collection[str]) -> None:
    """Take every role but these from a principal."""
    held = delete(PrincipalRole).where(PrincipalRole.principal_id == principal_id)
    session.execute(held.where(PrincipalRole.role.not_in(list(kept))))
