"""Secrets are stored as hashes, links work once, sessions end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from pipeline.database.accounts import (
    NotAllowed,
    NotLoggedIn,
    ensure_principal,
    has_role,
    hash_token,
    issue,
    local_reviewer,
    redeem_login,
    require_role,
    revoke,
    session_of,
)
from pipeline.database.models import LoginSession, PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import database_now
from pipeline.errors import BadInput


def test_no_secret_is_stored(session: Session) -> None:
    issued = issue(session, local_reviewer(session), SessionKind.BEARER)
    stored = session.query(LoginSession).one()
    assert stored.token_hash == hash_token(issued.token)
    assert issued.token not in str(vars(stored))


def test_a_login_link_is_exchanged_once(session: Session) -> None:
    link = issue(session, local_reviewer(session), SessionKind.LOGIN)
    cookie = redeem_login(session, link.token)
    assert session_of(session, cookie.token, SessionKind.COOKIE).principal.name == "local"
    assert cookie.session.csrf_token
    with pytest.raises(NotLoggedIn):
        redeem_login(session, link.token)


def test_a_secret_is_good_for_its_own_kind_only(session: Session) -> None:
    link = issue(session, local_reviewer(session), SessionKind.LOGIN)
    bearer = issue(session, local_reviewer(session), SessionKind.BEARER)
    for token, kind in ((link.token, SessionKind.COOKIE), (bearer.token, SessionKind.COOKIE)):
        with pytest.raises(NotLoggedIn):
            session_of(session, token, kind)
    with pytest.raises(NotLoggedIn):
        redeem_login(session, bearer.token)


def test_expired_and_revoked_sessions_are_over(session: Session) -> None:
    issued = issue(session, local_reviewer(session), SessionKind.COOKIE)
    issued.session.expires_at = database_now(session) - timedelta(seconds=1)
    session.flush()
    with pytest.raises(NotLoggedIn):
        session_of(session, issued.token, SessionKind.COOKIE)
    other = issue(session, local_reviewer(session), SessionKind.COOKIE)
    revoke(session, other.session)
    with pytest.raises(NotLoggedIn):
        session_of(session, other.token, SessionKind.COOKIE)
    link = issue(session, local_reviewer(session), SessionKind.LOGIN)
    link.session.expires_at = database_now(session) - timedelta(seconds=1)
    session.flush()
    with pytest.raises(NotLoggedIn):
        redeem_login(session, link.token)


def test_an_admin_may_read_and_request_but_review_only_as_reviewer(session: Session) -> None:
    admin = ensure_principal(session, "ada", PrincipalKind.HUMAN, [Role.ADMIN])
    assert [has_role(admin, role) for role in (Role.VIEWER, Role.REQUESTER, Role.REVIEWER)] == [True, True, False]
    with pytest.raises(NotAllowed, match="'ada'"):
        require_role(admin, Role.REVIEWER)


def test_a_principal_keeps_its_kind(session: Session) -> None:
    ensure_principal(session, "bot", PrincipalKind.AGENT, [Role.VIEWER])
    with pytest.raises(BadInput, match="already a agent"):
        ensure_principal(session, "bot", PrincipalKind.HUMAN, [Role.VIEWER])


def test_the_local_reviewer_is_one_human(session: Session) -> None:
    assert local_reviewer(session).id == local_reviewer(session).id
    assert local_reviewer(session).kind == "human"
