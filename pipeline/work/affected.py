"""What a decision makes run again: the checkpoints it can affect, a smaller set, a new round of drafting."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from pipeline.releases.matching import matches
from pipeline.releases.models import Adapter
from pipeline.releases.service import matching_adapter
from pipeline.review import candidates
from pipeline.review.models import CandidateRow
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.models import CheckpointStatus
from pipeline.work import flow, repository
from pipeline.work.environment import environment_digest
from pipeline.work.models import Lane, Run


def affected_by(session: Session, adapter: Adapter) -> list[CheckpointStatus]:
    """Statuses on the adapter's profile whose checkpoint its predicate admits, and which it does not already serve."""
    return [
        status
        for status in sweeps.statuses(session, adapter.profile)
        if status.adapter_id != adapter.id
        and matches(adapter.predicate, status.checkpoint.family, status.checkpoint.config)
    ]


def rerun_affected(session: Session, adapter: Adapter) -> list[Run]:
    """Queue the checkpoints a new adapter can affect, with it; a checkpoint that passes as stock is left alone."""
    chosen = [s for s in affected_by(session, adapter) if not (s.outcome == "passed" and s.adapter_id is None)]
    return [_rerun(session, status) for status in _executed(session, chosen)]


def rerun_of_adapter(session: Session, adapter: Adapter) -> list[Run]:
    """Queue the checkpoints that a withdrawn adapter served, with whatever serves them now."""
    served = [s for s in sweeps.statuses(session, adapter.profile) if s.adapter_id == adapter.id]
    return [_rerun(session, status) for status in _executed(session, served)]


def _executed(session: Session, found: Sequence[CheckpointStatus]) -> list[CheckpointStatus]:
    """The statuses that runs were made for: those derived from another checkpoint follow it."""
    numbers = dict.fromkeys((status.derived_from or status.checkpoint_id, status.profile) for status in found)
    return [session.get_one(CheckpointStatus, number) for number in numbers]


def _rerun(session: Session, status: CheckpointStatus) -> Run:
    last = session.get_one(Run, status.run_id)
    adapter = matching_adapter(session, status.checkpoint, status.profile, last.releases_mode)
    now = environment_digest(status.profile)
    run = flow.schedule_capture(session, status.checkpoint, last, adapter, [], environment=now)
    repository.raise_lane(session, run, Lane.RERUN)
    return run


def schedule_struck(session: Session, smaller: CandidateRow, original: CandidateRow) -> Run:
    """Verify the set without the struck patch, as the original was verified."""
    like = session.get_one(Run, original.evidence[-1].run_id)
    now = environment_digest(like.profile)
    run = flow.schedule_verify(session, smaller.id, like, [], environment=now)
    repository.raise_lane(session, run, Lane.RERUN)
    return run


def schedule_round(session: Session, candidate: CandidateRow) -> Run | None:
    """Draft anew from the diagnosis behind a candidate that was sent back; None if nobody drafted it from one."""
    drafted = candidates.draft_of(session, candidate)
    diagnosed = candidates.diagnosis_run(session, drafted) if drafted else None
    if drafted is None or diagnosed is None:
        return None
    now = environment_digest(candidate.profile)
    run = flow.schedule_draft(session, diagnosed, diagnosed, [], environment=now)
    repository.raise_lane(session, run, Lane.RERUN)
    return run
