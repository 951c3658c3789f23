"""Principals, their roles, and the secrets that prove who they are. Secrets are stored as sha256 only.

Only humans can be reviewers: the database refuses anything else (composite foreign key and CHECK), this module merely
says it in words first.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy.orm import Session

from pipeline.database import repository
from pipeline.database.errors import DatabaseUnavailable
from pipeline.database.insert import insert_or_return
from pipeline.database.models import LoginSession, Principal, PrincipalKind, PrincipalRole, Role, SessionKind
from pipeline.database.unit_of_work import database_now, looking
from pipeline.errors import BadInput, FactoryError, NotFound

LOCAL_REVIEWER = "local"
"""The human who owns the data directory; `up` logs them in, the command line decides as them."""
LIFETIMES = {
    SessionKind.LOGIN: timedelta(hours=12),
    SessionKind.COOKIE: timedelta(days=14),
    SessionKind.BEARER: timedelta(days=90),
}


class NotAllowed(FactoryError):
    """The principal lacks the role."""

    code, status = "not_allowed", 403


class NotLoggedIn(FactoryError):
    """The secret is unknown, used, expired or revoked."""

    code, status = "not_logged_in", 401


class Issued(NamedTuple):
    """A new secret (shown once, never stored) and its row."""

    token: str
    session: LoginSession


def ensure_principal(session: Session, name: str, kind: PrincipalKind, roles: Iterable[Role]) -> Principal:
    """The principal of that name with at least these roles. Raises `BadInput` if it exists with another kind."""
    wanted = list(roles)
    if Role.REVIEWER in wanted and kind is not PrincipalKind.HUMAN:
        raise BadInput(f"{name!r} is a {kind}: only a human can be a reviewer.")
    now = database_now(session)
    principal = insert_or_return(session, Principal, {"name": name}, {"kind": kind, "created_at": now}).row
    if principal.kind != kind:
        raise BadInput(f"{name!r} is already a {principal.kind}, not a {kind}.")
    for role in wanted:
        insert_or_return(
            session, PrincipalRole, {"principal_id": principal.id, "role": role}, {"principal_kind": principal.kind}
        )
    session.refresh(principal)
    return principal


def set_roles(session: Session, principal: Principal, roles: Collection[Role]) -> None:
    """Let the principal hold exactly these roles. Raises `BadInput` for a reviewer who is no human."""
    repository.drop_other_roles(session, principal.id, roles)
    ensure_principal(session, principal.name, PrincipalKind(principal.kind), roles)


def find_principal(session: Session, name: str) -> Principal:
    """The principal of that name. Raises `NotFound`."""
    found = repository.principal_named(session, name)
    if found is None:
        raise NotFound(f"There is no principal {name!r}: `spyre-factory user create` makes one.")
    return found


def local_reviewer(session: Session) -> Principal:
    """The human who owns this installation, with every role."""
    return ensure_principal(session, LOCAL_REVIEWER, PrincipalKind.HUMAN, Role)


def has_role(principal: Principal, role: Role) -> bool:
    """True if the principal holds `role`: every role may view, an admin may request too, but never decides by that."""
    return role in roles_from({row.role for row in principal.roles})


def roles_from(held: Collection[str]) -> frozenset[Role]:
    """The roles that somebody who holds `held` may act in."""
    implied = {Role.VIEWER: bool(held), Role.REQUESTER: Role.ADMIN in held}
    return frozenset(role for role in Role if role in held or implied.get(role, False))


def require_role(principal: Principal, role: Role) -> None:
    """Raise `NotAllowed` unless the principal holds `role`."""
    if not has_role(principal, role):
        raise NotAllowed(f"{principal.name!r} does not hold the role {role.value!r}.")


def issue(
    session: Session, principal: Principal, kind: SessionKind, label: str = "", lifetime: timedelta | None = None
) -> Issued:
    """A new login link secret, cookie or bearer token for `principal`, good for `lifetime` (default: its kind's)."""
    token = secrets.token_urlsafe(32)
    now = database_now(session)
    row = LoginSession(
        kind=kind,
        principal=principal,
        token_hash=hash_token(token),
        csrf_token=secrets.token_urlsafe(32) if kind == SessionKind.COOKIE else None,
        label=label,
        created_at=now,
        expires_at=now + (lifetime or LIFETIMES[kind]),
    )
    session.add(row)
    session.flush()
    return Issued(token, row)


def redeem_login(session: Session, token: str) -> Issued:
    """Exchange a one-time login secret for a cookie. Raises `NotLoggedIn` the second time: one UPDATE decides."""
    principal_id = repository.use_login(session, hash_token(token), database_now(session))
    if principal_id is None:
        raise NotLoggedIn("This login link is unknown, used or expired: `spyre-factory up` prints a new one.")
    return issue(session, session.get_one(Principal, principal_id), SessionKind.COOKIE)


def known_by(token: str, kind: SessionKind) -> repository.Known:
    """Whose cookie or bearer token this is. Raises `NotLoggedIn`. A connection that was lost is tried anew once."""
    try:
        found = _known_by(token, kind)
    except DatabaseUnavailable:
        found = _known_by(token, kind)
    if found is None:
        raise NotLoggedIn("The session is unknown, expired or revoked: log in again.")
    return found


def _known_by(token: str, kind: SessionKind) -> repository.Known | None:
    with looking() as session:
        return repository.find_known(session, hash_token(token), kind)


def session_of(session: Session, token: str, kind: SessionKind) -> LoginSession:
    """The live cookie or bearer session of this secret. Raises `NotLoggedIn`."""
    row = repository.find_session(session, hash_token(token), kind)
    if row is None or row.revoked_at is not None or row.expires_at <= database_now(session):
        raise NotLoggedIn("The session is unknown, expired or revoked: log in again.")
    return row


def revoke(session: Session, row: LoginSession) -> None:
    """End a session; its secret is worthless from the commit on."""
    row.revoked_at = database_now(session)
    session.flush()


def hash_token(token: str) -> str:
    """What is stored in place of a secret."""
    return hashlib.sha256(token.encode()).hexdigest()
