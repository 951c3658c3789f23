"""Every query on requests and idempotency keys."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from pipeline.database.models import Principal
from pipeline.requests.errors import UnknownRequest
from pipeline.requests.models import IdempotencyKey, RequestRow, RequestState
from pipeline.review.models import CandidateCheckpoint, CandidateRow, CandidateState
from pipeline.sweeps.models import CatalogueEntry, Sweep, SweepState
from pipeline.work.models import ACTIVE_STATES, Run

DAY = timedelta(hours=24)


def get_request(session: Session, request_id: str) -> RequestRow:
    """The request with this id. Raises `UnknownRequest`."""
    row = session.get(RequestRow, request_id)
    if row is None:
        raise UnknownRequest(f"There is no request {request_id!r}.")
    return row


def list_requests(session: Session, limit: int = 50) -> list[RequestRow]:
    """The newest requests."""
    return list(session.scalars(select(RequestRow).order_by(RequestRow.created_at.desc()).limit(limit)))


def find_open(session: Session, open_key: str) -> RequestRow | None:
    """The open request with this key."""
    return session.scalar(select(RequestRow).where(RequestRow.open_key == open_key))


def lock_requester(session: Session, principal_id: int | None) -> None:
    """Let a principal's requests be counted one after the other. Nobody in particular exists on SQLite only."""
    if principal_id is not None:
        session.execute(select(Principal.id).where(Principal.id == principal_id).with_for_update())


def count_open(session: Session, principal_id: int | None) -> int:
    """Requests of a principal (None: of nobody in particular) that are open."""
    query = select(func.count(RequestRow.id)).where(RequestRow.principal_id.is_not_distinct_from(principal_id))
    return session.scalar(query.where(RequestRow.state == RequestState.OPEN)) or 0


def count_of_day(session: Session, principal_id: int | None, now: datetime) -> int:
    """Requests a principal (None: nobody in particular) made in the last 24 hours."""
    query = select(func.count(RequestRow.id)).where(RequestRow.principal_id.is_not_distinct_from(principal_id))
    return session.scalar(query.where(RequestRow.created_at > now - DAY)) or 0


def sweep_of_request(session: Session, request_id: str) -> Sweep | None:
    """The sweep a request caused."""
    return session.scalar(select(Sweep).where(Sweep.request_id == request_id).order_by(Sweep.id.desc()).limit(1))


def entry_of_sweep(session: Session, sweep: Sweep) -> CatalogueEntry | None:
    """The one catalogue row a request's sweep is about."""
    query = select(CatalogueEntry).where(CatalogueEntry.snapshot_id == sweep.snapshot_id)
    return session.scalar(query.order_by(CatalogueEntry.position).limit(1))


def open_requests_of_ended_sweeps(session: Session) -> list[RequestRow]:
    """Open requests whose sweep has ended, locked; those another process holds are left to it."""
    query = select(RequestRow).join(Sweep, Sweep.request_id == RequestRow.id)
    query = query.where(RequestRow.state == RequestState.OPEN, Sweep.state == SweepState.DONE)
    return list(session.scalars(query.with_for_update(of=RequestRow, skip_locked=True)))


def has_active_runs(session: Session, checkpoint_id: int, profile: str) -> bool:
    """True if a run of this checkpoint on this profile has not ended: a release may have caused it."""
    query = select(Run.id).where(Run.checkpoint_id == checkpoint_id, Run.profile == profile)
    return session.scalar(query.where(Run.state.in_(ACTIVE_STATES)).limit(1)) is not None


def waits_for_review(session: Session, checkpoint_id: int, profile: str) -> bool:
    """True if a candidate for this checkpoint on this profile waits for a human."""
    query = select(CandidateRow.id).join(CandidateCheckpoint, CandidateCheckpoint.candidate_id == CandidateRow.id)
    query = query.where(CandidateCheckpoint.checkpoint_id == checkpoint_id, CandidateRow.profile == profile)
    return session.scalar(query.where(CandidateRow.state == CandidateState.WAITING).limit(1)) is not None


def drop_expired_keys(session: Session, now: datetime) -> None:
    """Forget the idempotency keys whose time is over."""
    session.execute(delete(IdempotencyKey).where(IdempotencyKey.expires_at <= now))
