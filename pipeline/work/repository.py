"""Every query on runs: insert-or-return, claim, renew, finish, release, what to send, what was lost.

Times are the database's. A claim is one UPDATE whose row is chosen and locked by the database, so two workers never get
the same run; on SQLite the writer's lock does it, on PostgreSQL `FOR UPDATE SKIP LOCKED`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.database.insert import Inserted, insert_or_return
from pipeline.database.prepared import Prepared
from pipeline.database.unit_of_work import database_now
from pipeline.verification.policy import current_policy
from pipeline.work import order
from pipeline.work.errors import LeaseLost
from pipeline.work.models import ACTIVE_STATES, DiagnosisRow, FailureRow, Lane, Outcome, Run, RunState, StageName
from pipeline.work.results import REASON_LIMIT, StageResult, cut

MAX_DELIVERIES = 3
"""A run whose worker was lost this often is the one that kills workers: it ends as `crashed`."""
MAX_ATTEMPTS = 3
"""Attempts of a run that ends in `infra` before it stays so."""
RETRY_DELAY_S = 5.0
TEXT_WIDTHS = {"kind": 32, "op": 120, "source": 240, "module": 240, "place": 16, "message": REASON_LIMIT}
"""What the columns of a failure hold; `data` keeps the whole."""


@dataclass(frozen=True)
class NewRun:
    """A run to be made. `content` is everything else that decides the result; it goes into the content key."""

    stage: str
    checkpoint_id: int
    profile: str
    weights_mode: str
    releases_mode: str
    tier: str
    environment: str
    content: tuple[Any, ...]
    candidate_id: int | None = None
    adapter_id: int | None = None
    parent_run_id: int | None = None
    request_id: str | None = None
    lane: int = Lane.SWEEP
    requester: str | None = None
    priority: int = 0
    downloads: int = 0

    @property
    def content_key(self) -> str:
        """sha256 of the stage, what it works on and the environment: equal keys are the same work."""
        parts = [self.stage, self.profile, self.weights_mode, self.tier, self.environment, *self.content]
        return hashlib.sha256(canonical(parts)).hexdigest()


@dataclass(frozen=True)
class Lease:
    """The right to work on a run until `expires_at`; `fence` proves it."""

    run_id: int
    stage: str
    owner: str
    fence: int
    expires_at: datetime
    request_id: str | None = None


class Lost(NamedTuple):
    """What the sweeper found: runs given back, and runs given up."""

    requeued: list[int]
    crashed: list[int]


def ensure_run(session: Session, new: NewRun) -> Inserted:
    """The run for this work, made if it is not there. One that ended in `infra` or was cancelled is queued again."""
    values = {k: v for k, v in asdict(new).items() if k != "content"} | {"created_at": database_now(session)}
    found = insert_or_return(session, Run, {"content_key": new.content_key}, values)
    run: Run = found.row
    if run.state == RunState.CANCELLED or (run.state == RunState.DONE and run.outcome == Outcome.INFRA):
        _queue_again(run, attempts=0)
    if run.state in ACTIVE_STATES and (new.lane, new.priority) > (run.lane, run.priority):
        run.lane, run.requester, run.priority = new.lane, new.requester, new.priority
        run.request_id = run.request_id or new.request_id
    session.flush()
    return found


def _queue_again(run: Run, attempts: int) -> None:
    run.state, run.outcome, run.kind, run.reason = RunState.QUEUED, None, None, ""
    run.sent_at = run.not_before = run.finished_at = None
    run.deliveries, run.attempts = 0, attempts


def raise_priority(session: Session, run: Run, priority: int) -> None:
    """Let a queued run go before those of lower priority; its followers inherit it."""
    run.priority = max(run.priority, priority)
    session.flush()


def raise_lane(session: Session, run: Run, lane: Lane) -> None:
    """Let a queued run go in a higher lane; its followers inherit it."""
    run.lane = max(run.lane, lane)
    session.flush()


def claim_next(session: Session, owner: str, ttl_s: float) -> Lease | None:
    """Lease the run whose turn it is (`pipeline.work.order`); None if there is none.

    Whose turn it is was read without a lock: where others were faster, the next in line is taken.
    """
    now = database_now(session)
    turn = order.whose_turn(session, now)
    if turn is None:
        return None
    return _claim(session, owner, ttl_s, turn, now) or _claim(session, owner, ttl_s, [], now)


def claim_hinted(session: Session, hint: int, owner: str, ttl_s: float) -> Lease | None:
    """Lease for a message that names the run `hint`: the run of highest priority now, whichever that is.

    When another run is taken, the two change places as to whether a message is under way. So the message of a run that
    is no longer queued stands for another one: it takes a run that a message was sent for, or none if there is none
    (it was delivered twice). Otherwise that run would wait until its message is thought to be lost.
    """
    hinted = session.scalar(select(Run.id).where(Run.id == hint, Run.state == RunState.QUEUED).with_for_update())
    if hinted is None:
        return _claim(session, owner, ttl_s, [Run.sent_at.is_not(None)], database_now(session))
    lease = claim_next(session, owner, ttl_s)
    if lease is not None and lease.run_id != hint:
        taken = select(Run.sent_at).where(Run.id == lease.run_id).scalar_subquery()
        session.execute(
            update(Run).where(Run.id == hint).values(sent_at=taken).execution_options(synchronize_session=False)
        )
    return lease


def claim_run(session: Session, run_id: int, owner: str, ttl_s: float) -> Lease | None:
    """Lease this run; None if it is done, somebody else's, or not to be tried yet."""
    return _claim(session, owner, ttl_s, [Run.id == run_id], database_now(session))


def _claim(session: Session, owner: str, ttl_s: float, only: list[ColumnElement[bool]], now: datetime) -> Lease | None:
    chosen = (
        select(Run.id)
        .where(*order.claimable(now), *only)
        .order_by(*order.ORDER)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    statement = (
        update(Run)
        .where(Run.id == chosen, Run.state == RunState.QUEUED)
        .values(
            state=RunState.CLAIMED,
            lease_owner=owner,
            lease_expires_at=now + timedelta(seconds=ttl_s),
            fence=Run.fence + 1,
            deliveries=Run.deliveries + 1,
            started_at=now,
        )
        .returning(Run.id, Run.stage, Run.fence, Run.lease_expires_at, Run.request_id)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).first()
    if row is None:
        return None
    return Lease(row.id, row.stage, owner, row.fence, row.lease_expires_at, row.request_id)


def renew(session: Session, lease: Lease, ttl_s: float) -> None:
    """Push the end of the lease back. Raises `LeaseLost` if it is no longer ours."""
    until = database_now(session) + timedelta(seconds=ttl_s)
    _update_leased(session, lease, lease_expires_at=until)


def give_back(session: Session, lease: Lease) -> None:
    """Return an unfinished run to the queue, as if it had not been delivered."""
    _update_leased(session, lease, state=RunState.QUEUED, deliveries=Run.deliveries - 1, **_NO_LEASE)


_NO_LEASE: dict[str, Any] = {"lease_owner": None, "lease_expires_at": None, "sent_at": None}


def _update_leased(session: Session, lease: Lease, **values: Any) -> None:
    statement = (
        update(Run)
        .where(Run.id == lease.run_id, Run.fence == lease.fence, Run.state == RunState.CLAIMED)
        .values(**values)
        .execution_options(synchronize_session=False)
    )
    if session.execute(statement).rowcount != 1:  # type: ignore[attr-defined]
        raise LeaseLost(f"run {lease.run_id}: the lease with fencing number {lease.fence} is no longer valid")


def finish(session: Session, lease: Lease, result: StageResult, versions: dict[str, Any]) -> Run:
    """Store the result and end the run; an `infra` result is queued again until its attempts are used up.

    Raises `LeaseLost` when the fencing number is old: whoever holds the newer lease decides.
    """
    _update_leased(session, lease, state=RunState.DONE, lease_owner=None, lease_expires_at=None)
    run = session.get_one(Run, lease.run_id, populate_existing=True)
    now = database_now(session)
    run.attempts += 1
    result = _given_up(run, result)
    if result.outcome is Outcome.INFRA and run.attempts < MAX_ATTEMPTS:
        attempts = run.attempts
        _queue_again(run, attempts)
        run.reason = result.reason
        run.not_before = now + timedelta(seconds=RETRY_DELAY_S * 2 ** (attempts - 1))
    else:
        _store(session, run, result, versions, now)
    session.flush()
    return run


def _given_up(run: Run, result: StageResult) -> StageResult:
    """A verification that ends in `infra` twice in a row is `unknown`: a candidate cannot ask for endless new draws."""
    limit = current_policy().guards["infra_in_a_row"]
    if run.stage != StageName.VERIFY or result.outcome is not Outcome.INFRA or run.attempts < limit:
        return result
    reason = f"Our fault {run.attempts} times in a row, the last: {result.reason}"
    return replace(result, outcome=Outcome.UNKNOWN, reason=cut(reason))


def _store(session: Session, run: Run, result: StageResult, versions: dict[str, Any], now: datetime) -> None:
    run.outcome, run.kind, run.reason = result.outcome, result.kind, result.reason
    run.weights, run.depth, run.fingerprint = result.weights, result.depth, result.fingerprint
    run.seconds, run.peak_rss_mb = result.seconds, result.peak_rss_mb
    run.measurements, run.evidence, run.artefacts = result.measurements, result.evidence, result.artefacts
    run.versions, run.finished_at = versions, now
    for table in (FailureRow, DiagnosisRow):
        session.execute(delete(table).where(table.run_id == run.id))
    session.add_all(_failure_rows(run, result.failures))
    session.add_all(_diagnosis_rows(run, result.diagnoses))


def _failure_rows(run: Run, failures: Sequence[dict[str, Any]]) -> list[FailureRow]:
    return [
        FailureRow(
            run_id=run.id,
            checkpoint_id=run.checkpoint_id,
            data=data,
            **{name: data[name] for name in ("count", "after") if name in data},
            **{name: cut(str(data[name]), width) for name, width in TEXT_WIDTHS.items() if name in data},
        )
        for data in failures
    ]


def _diagnosis_rows(run: Run, diagnoses: Sequence[dict[str, Any]]) -> list[DiagnosisRow]:
    return [
        DiagnosisRow(
            run_id=run.id,
            checkpoint_id=run.checkpoint_id,
            kind=data["failure"]["kind"],
            op=cut(data["failure"]["op"], TEXT_WIDTHS["op"]),
            no_patch=data.get("no_patch"),
            data=data,
        )
        for data in diagnoses
    ]


def recover_lost(session: Session) -> Lost:
    """Runs whose lease ran out: back to the queue, or ended as `crashed` once delivered `MAX_DELIVERIES` times."""
    now = database_now(session)
    expired = select(Run).where(Run.state == RunState.CLAIMED, Run.lease_expires_at < now)
    lost = Lost([], [])
    for run in session.scalars(expired.with_for_update(skip_locked=True)):
        run.lease_owner = run.lease_expires_at = run.sent_at = None
        if run.deliveries >= MAX_DELIVERIES:
            run.state, run.outcome, run.kind, run.finished_at = RunState.DONE, Outcome.FAILED, "crashed", now
            run.reason = f"Its worker was lost {run.deliveries} times while it ran."
            lost.crashed.append(run.id)
        else:
            run.state = RunState.QUEUED
            lost.requeued.append(run.id)
    session.flush()
    return lost


def free_leases_of(session: Session, owner_prefix: str) -> int:
    """Give back every run held by owners with this prefix (workers known to be gone), without counting a delivery."""
    statement = (
        update(Run)
        .where(Run.state == RunState.CLAIMED, Run.lease_owner.startswith(owner_prefix, autoescape=True))
        .values(state=RunState.QUEUED, deliveries=Run.deliveries - 1, **_NO_LEASE)
        .execution_options(synchronize_session=False)
    )
    return int(session.execute(statement).rowcount)  # type: ignore[attr-defined]


def mark_unsent(session: Session, older_than_s: float | None) -> int:
    """Forget that messages were sent (all, or those older than this): the dispatcher sends them again."""
    conditions = [Run.state == RunState.QUEUED, Run.sent_at.is_not(None)]
    if older_than_s is not None:
        conditions.append(Run.sent_at < database_now(session) - timedelta(seconds=older_than_s))
    statement = update(Run).where(*conditions).values(sent_at=None).execution_options(synchronize_session=False)
    return int(session.execute(statement).rowcount)  # type: ignore[attr-defined]


def take_to_send(session: Session, limit: int) -> list[int]:
    """The next runs to send a message for, in the order of the queue, marked as sent."""
    now = database_now(session)
    query = (
        select(Run)
        .where(*order.claimable(now), Run.sent_at.is_(None))
        .order_by(*order.ORDER)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    runs = list(session.scalars(query))
    for run in runs:
        run.sent_at = now
    session.flush()
    return [run.id for run in runs]


def count_outstanding(session: Session) -> int:
    """Messages sent whose run has not been claimed."""
    query = select(func.count()).where(Run.state == RunState.QUEUED, Run.sent_at.is_not(None))
    return session.scalar(query) or 0


_UNSENT = Prepared(lambda: select(Run.id).where(Run.state == RunState.QUEUED.value, Run.sent_at.is_(None)).limit(1))


def has_unsent(session: Session) -> bool:
    """True if a queued run waits for its message."""
    return _UNSENT.run(session).first() is not None


def count_in_state(session: Session, state: RunState) -> int:
    """How many runs are in one state: by the index, however many have ended."""
    return session.scalar(select(func.count()).where(Run.state == state)) or 0


def count_by_state(session: Session) -> dict[str, int]:
    """How many runs are in each state."""
    found = session.execute(select(Run.state, func.count()).group_by(Run.state)).all()
    return {state.value: 0 for state in RunState} | {row[0]: row[1] for row in found}


def oldest_claimable_age_s(session: Session) -> float | None:
    """Seconds the oldest claimable run has waited; None if there is none."""
    now = database_now(session)
    oldest = session.scalar(select(func.min(Run.created_at)).where(*order.claimable(now)))
    return None if oldest is None else (now - oldest).total_seconds()


def inspection_of(session: Session, checkpoint_id: int, profile: str, weights_mode: str) -> Run | None:
    """The newest finished inspection of a checkpoint for a profile and a weights mode."""
    query = select(Run).where(Run.checkpoint_id == checkpoint_id, Run.profile == profile)
    query = query.where(Run.weights_mode == weights_mode, Run.stage == StageName.INSPECT, Run.state == RunState.DONE)
    return session.scalar(query.order_by(Run.finished_at.desc()).limit(1))


def runs_of_checkpoint(session: Session, checkpoint_id: int, profile: str) -> list[Run]:
    """All runs of a checkpoint on a profile, newest first."""
    query = select(Run).where(Run.checkpoint_id == checkpoint_id, Run.profile == profile).order_by(Run.id.desc())
    return list(session.scalars(query))
