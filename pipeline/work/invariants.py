"""What must hold in the database whatever happened to processes, brokers and connections: eight invariants as queries.

`violations` gives, for each, sentences that name the rows; none is the only good answer. `db check` prints them, and
the fault tests ask for them after every fault. With `at_rest`, everything that was begun must also have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from pipeline.database.models import Artefact, EventStream, OutboxEvent
from pipeline.database.unit_of_work import database_now
from pipeline.releases.models import Adapter
from pipeline.releases.service import manifest_digest
from pipeline.review.history import history_is_whole
from pipeline.review.models import (
    BudgetEntry,
    CandidateRow,
    CandidateState,
    Decision,
    EvidenceRow,
    ReviewRow,
    Trajectory,
)
from pipeline.sweeps.models import (
    CatalogueEntry,
    CatalogueSnapshot,
    CheckpointStatus,
    Sweep,
    SweepRun,
    SweepState,
)
from pipeline.work.models import ACTIVE_STATES, Outcome, Run, RunState, StageName

OVERDUE = timedelta(minutes=10)
"""A lease that ran out so long ago has been found by no sweeper: no dispatcher runs."""
NAMED = 20
"""Rows that a sentence names at most."""
STATUS_STAGES = (StageName.INSPECT, StageName.CAPTURE, StageName.EXECUTE)
WORTH_EVIDENCE = (CandidateState.WAITING, CandidateState.RELEASED)
Check = Callable[[Session], Iterable[str]]


def violations(session: Session, *, at_rest: bool = False) -> dict[str, list[str]]:
    """For each invariant the sentences that say what breaks it."""
    found = {name: list(check(session)) for name, check in INVARIANTS.items()}
    if at_rest:
        found["every_run_ends"] += list(_unfinished(session))
    return found


def _named(session: Session, what: str, query: Select[Any]) -> list[str]:
    """One sentence that names the rows of a query by their first column; none if it has none."""
    rows = [str(row[0]) for row in session.execute(query.limit(NAMED + 1))]
    more = " and more" if len(rows) > NAMED else ""
    return [f"{what}: {', '.join(rows[:NAMED])}{more}"] if rows else []


def no_model_is_lost(session: Session) -> Iterable[str]:
    """Every listed model has a row that says why it was dropped, or a checkpoint that its sweeps have looked at."""
    neither = CatalogueEntry.checkpoint_id.is_(None) & CatalogueEntry.dropped_kind.is_(None)
    yield from _named(session, "neither dropped nor a checkpoint, entries", select(CatalogueEntry.id).where(neither))
    rows = select(func.count(CatalogueEntry.id)).where(CatalogueEntry.snapshot_id == CatalogueSnapshot.id)
    short = select(CatalogueSnapshot.id).where(CatalogueSnapshot.listed != rows.scalar_subquery())
    yield from _named(session, "snapshots without all their entries", short)
    looked_at = exists().where(SweepRun.sweep_id == Sweep.id, SweepRun.run_id == Run.id)
    looked_at = looked_at.where(Run.checkpoint_id == CatalogueEntry.checkpoint_id)
    forgotten = (
        select(CatalogueEntry.id)
        .join(Sweep, Sweep.snapshot_id == CatalogueEntry.snapshot_id)
        .where(CatalogueEntry.checkpoint_id.is_not(None), Sweep.state != SweepState.CANCELLED)
        .where(or_(Sweep.top.is_(None), CatalogueEntry.position <= Sweep.top), ~looked_at)
    )
    yield from _named(session, "listed, but in no run of their sweep, entries", forgotten)


def no_effect_twice(session: Session) -> Iterable[str]:
    """One release and one approval for a candidate, one sweep for a request, one number for an event of a stream."""
    for what, column, conditions in _ONCE:
        twice = select(column).where(column.is_not(None), *conditions).group_by(column).having(func.count() > 1)
        yield from _named(session, what, twice)
    approvals = select(ReviewRow.candidate_id).where(ReviewRow.decision == Decision.APPROVE.value)
    approvals = approvals.group_by(ReviewRow.candidate_id, ReviewRow.principal_id, ReviewRow.evidence_digest)
    yield from _named(session, "candidates approved twice by one person", approvals.having(func.count() > 1))
    numbers = (
        select(OutboxEvent.stream, func.count().label("events"), func.max(OutboxEvent.number).label("last"))
        .where(OutboxEvent.stream.is_not(None))
        .group_by(OutboxEvent.stream)
        .subquery()
    )
    gaps = select(numbers.c.stream).join(EventStream, EventStream.stream == numbers.c.stream)
    gaps = gaps.where(or_(numbers.c.events != numbers.c.last, EventStream.last_number != numbers.c.last))
    yield from _named(session, "streams with a gap", gaps)


_ONCE: tuple[tuple[str, Any, tuple[ColumnElement[bool], ...]], ...] = (
    ("candidates released more than once", Adapter.candidate_id, ()),
    ("requests with more than one sweep", Sweep.request_id, ()),
)


def every_run_ends(session: Session) -> Iterable[str]:
    """A run's row is of one piece: who has a lease works on it, what is done says how, nothing waits for ever."""
    now = database_now(session)
    for what, broken in (
        ("claimed without a lease, runs", _is(RunState.CLAIMED) & Run.lease_expires_at.is_(None)),
        ("found by no sweeper, runs", _is(RunState.CLAIMED) & (Run.lease_expires_at < now - OVERDUE)),
        ("queued with a lease, runs", _is(RunState.QUEUED) & Run.lease_owner.is_not(None)),
        ("done without an outcome, runs", _is(RunState.DONE) & or_(Run.outcome.is_(None), Run.finished_at.is_(None))),
        ("not done and with an outcome, runs", (Run.state != RunState.DONE) & Run.outcome.is_not(None)),
        ("tried again only after a day, runs", _is(RunState.QUEUED) & (Run.not_before > now + timedelta(days=1))),
    ):
        yield from _named(session, what, select(Run.id).where(broken))


def _is(state: RunState) -> ColumnElement[bool]:
    return Run.state == state


def _unfinished(session: Session) -> Iterable[str]:
    yield from _named(session, "runs that have not ended", select(Run.id).where(Run.state.in_(ACTIVE_STATES)))
    yield from _named(session, "sweeps that have not ended", select(Sweep.id).where(Sweep.state == SweepState.RUNNING))


def no_pass_without_evidence(session: Session) -> Iterable[str]:
    """What passed was measured: evidence that is complete, artefacts that are stored, a human who approved."""
    complete = and_(
        EvidenceRow.candidate_id == CandidateRow.id,
        EvidenceRow.candidate_digest == CandidateRow.digest,
        EvidenceRow.complete,
        EvidenceRow.outcome == Outcome.PASSED,
        EvidenceRow.tier == "full",
    )
    bare = select(CandidateRow.id).where(CandidateRow.state.in_(WORTH_EVIDENCE), ~exists().where(complete))
    yield from _named(session, "candidates without complete evidence", bare)
    approved = exists().where(ReviewRow.candidate_id == Adapter.candidate_id, ReviewRow.decision == "approve")
    unapproved = select(Adapter.id).where(Adapter.candidate_id.is_not(None), ~approved)
    yield from _named(session, "released without an approval, adapters", unapproved)
    passed = select(Run.id, Run.measurements, Run.artefacts).where(Run.state == RunState.DONE)
    passed = passed.where(Run.outcome == Outcome.PASSED, Run.stage.in_((StageName.EXECUTE, StageName.VERIFY)))
    rows = session.execute(passed).all()
    unmeasured = [str(row.id) for row in rows if not row.measurements]
    if unmeasured:
        yield f"passed without a measurement, runs: {', '.join(unmeasured[:NAMED])}"
    yield from _unstored(session, {item["digest"] for row in rows for item in row.artefacts})


def _unstored(session: Session, digests: set[str]) -> Iterable[str]:
    stored = set(session.scalars(select(Artefact.digest))) if digests else set()
    missing = sorted(digests - stored)
    if missing:
        yield f"named as evidence and not stored, artefacts: {', '.join(missing[:NAMED])}"


def adapters_are_what_was_released(session: Session) -> Iterable[str]:
    """The manifest of every adapter, withdrawn ones too, still has the digest under which it was released."""
    rows = session.execute(select(Adapter.id, Adapter.digest, Adapter.manifest).order_by(Adapter.id))
    changed = [str(number) for number, digest, manifest in rows if manifest_digest(manifest) != digest]
    if changed:
        yield f"changed after their release, adapters: {', '.join(changed[:NAMED])}"


def costs_are_charged(session: Session) -> Iterable[str]:
    """What drafting a run cost is never more than what the ledger charges for it; nothing is charged below zero."""
    charged = select(func.sum(func.coalesce(BudgetEntry.settled_usd, BudgetEntry.reserved_usd)))
    charged = charged.where(BudgetEntry.run_id == Trajectory.run_id)
    spent = func.sum(Trajectory.cost_usd)
    below = select(Trajectory.run_id).where(Trajectory.run_id.is_not(None), Trajectory.cost_usd.is_not(None))
    below = below.group_by(Trajectory.run_id).having(spent > func.coalesce(charged.scalar_subquery(), 0) + 1e-9)
    yield from _named(session, "spent more than was charged, runs", below)
    yield from _named(session, "charged below zero, entries", select(BudgetEntry.id).where(BudgetEntry.settled_usd < 0))


def the_dashboard_says_what_is_wrong(session: Session) -> Iterable[str]:
    """A checkpoint's status is that of a run that ended, and what went wrong has a reason in words."""
    speaking = select(CheckpointStatus.checkpoint_id).join(Run, Run.id == CheckpointStatus.run_id)
    shown = CheckpointStatus.outcome != Run.outcome
    early = (Run.outcome == Outcome.PASSED) & (Run.stage != StageName.EXECUTE)
    differs = and_(Run.state == RunState.DONE, shown, ~(early & (CheckpointStatus.outcome == Outcome.UNKNOWN)))
    yield from _named(session, "shown otherwise than their run ended, checkpoints", speaking.where(differs))
    wrong = Run.outcome.in_((Outcome.FAILED, Outcome.INFRA))
    yield from _named(session, "failed without a reason, runs", select(Run.id).where(wrong, Run.reason == ""))
    status = aliased(CheckpointStatus)
    unseen = ~exists().where(status.checkpoint_id == Run.checkpoint_id, status.profile == Run.profile)
    ended = select(Run.id).where(Run.state == RunState.DONE, Run.stage.in_(STATUS_STAGES), unseen)
    yield from _named(session, "ended and not shown, runs", ended)


INVARIANTS: dict[str, Check] = {
    check.__name__: check
    for check in (
        no_model_is_lost,
        no_effect_twice,
        every_run_ends,
        no_pass_without_evidence,
        adapters_are_what_was_released,
        history_is_whole,
        costs_are_charged,
        the_dashboard_says_what_is_wrong,
    )
}


def broken(found: Mapping[str, Sequence[str]]) -> list[str]:
    """All sentences of a report, each with the name of its invariant."""
    return [f"{name}: {sentence}" for name, sentences in found.items() for sentence in sentences]
