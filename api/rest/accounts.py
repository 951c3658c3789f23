"""/audit and /tokens: who did what, and the caller's own bearer tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from api import repository
from api.cursors import Cursor, decode
from api.rest import PREFIX
from api.rest.paging import PageQuery
from api.rest.schemas import NO_NUL, Strict
from api.security.identity import Caller, Owner, Reader, principal_of
from pipeline.database.accounts import LIFETIMES, issue, revoke
from pipeline.database.models import LoginSession, SessionKind
from pipeline.database.unit_of_work import database_now, reading, unit_of_work

router = APIRouter(prefix=PREFIX, tags=["accounts"])
KINDS = ("candidate", "adapter", "sweep", "request")
LONGEST_DAYS = LIFETIMES[SessionKind.BEARER].days


class AuditQuery(PageQuery):
    """What happened to subjects of a kind."""

    kind: Literal["candidate", "adapter", "sweep", "request"] | None = None


class AuditItem(BaseModel):
    """Something that happened to a subject; decisions name who took them."""

    id: int
    at: datetime
    topic: str
    kind: str
    subject: str
    request: str | None
    more: dict[str, Any]


class Audit(BaseModel):
    """One page of the audit, newest first."""

    audit: list[AuditItem]
    next: str | None


class DecisionItem(BaseModel):
    """A decision of a reviewer, with the row's place in the chain of digests."""

    id: int
    candidate: int | None
    by: str
    decision: str
    reason: str
    candidate_digest: str
    evidence_digest: str
    at: datetime
    previous_digest: str | None
    digest: str | None


class Decisions(BaseModel):
    """The newest decisions."""

    decisions: list[DecisionItem]


class NewToken(Strict):
    """A token to be made."""

    label: Annotated[str, Field(min_length=1, max_length=120, pattern=NO_NUL, examples=["nightly export"])]
    expires_in_days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = LONGEST_DAYS


class TokenItem(BaseModel):
    """A live token of the caller."""

    id: int
    label: str
    created_at: datetime
    expires_at: datetime


class MadeToken(TokenItem):
    """A new token; its secret is in this one answer only."""

    token: str


class Tokens(BaseModel):
    """The caller's live tokens, newest first."""

    tokens: list[TokenItem]


@router.get("/audit", response_model=Audit)
def get_audit(_caller: Reader, query: Annotated[AuditQuery, Query()]) -> dict[str, Any]:
    """What happened to candidates, adapters, sweeps and requests, newest first."""
    kinds = (query.kind,) if query.kind else KINDS
    before = decode(query.cursor, ("audit",), int).id if query.cursor else None
    with reading() as session:
        events = repository.events_about(session, kinds, before, query.limit + 1)
    shown = events[: query.limit]
    following = Cursor("audit", 0, shown[-1].id).encode() if len(events) > query.limit else None
    named = {"id": "id", "at": "created_at", "topic": "topic", "kind": "subject_kind", "subject": "subject_id"}
    named |= {"request": "request_id", "more": "payload"}
    rows = [{name: getattr(event, column) for name, column in named.items()} for event in shown]
    return {"audit": rows, "next": following}


@router.get("/audit/decisions", response_model=Decisions)
def get_decisions(_caller: Reader) -> dict[str, Any]:
    """The newest decisions of reviewers; each row's digest covers the row before it."""
    with reading() as session:
        found = repository.newest_decisions(session, repository.MOST_OF_A_KIND)
    named = ("id", "decision", "reason", "candidate_digest", "evidence_digest", "previous_digest", "digest")
    rows = [
        {**{name: getattr(row, name) for name in named}, "candidate": row.candidate_id, "by": who, "at": row.created_at}
        for row, who in found
    ]
    return {"decisions": rows}


@router.get("/tokens", response_model=Tokens)
def list_tokens(caller: Owner) -> dict[str, Any]:
    """The caller's live bearer tokens, without their secrets."""
    with reading() as session:
        rows = repository.sessions_of(session, _number(caller), database_now(session))
    return {"tokens": [_token(row) for row in rows if row.kind == SessionKind.BEARER]}


@router.post("/tokens", status_code=201, response_model=MadeToken)
def post_token(caller: Owner, body: NewToken) -> dict[str, Any]:
    """A new bearer token with the roles of the caller. Keep the secret: it is not shown again."""
    with unit_of_work() as session:
        lifetime = timedelta(days=body.expires_in_days)
        made = issue(session, principal_of(session, caller), SessionKind.BEARER, body.label, lifetime)
        return {**_token(made.session), "token": made.token}


@router.delete("/tokens/{number}", status_code=204)
def delete_token(caller: Owner, number: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> None:
    """Revoke a token or session of the caller's own; it is worthless from then on."""
    with unit_of_work() as session:
        revoke(session, repository.own_session(session, _number(caller), number))


def _number(caller: Caller) -> int:
    assert caller.principal_id is not None, "`Owner` lets in nobody else"
    return caller.principal_id


def _token(row: LoginSession) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("id", "label", "created_at", "expires_at")}
