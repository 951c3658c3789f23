"""Every query on candidates, evidence, reviews, trajectories and budgets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Subquery, and_, func, select
from sqlalchemy.orm import Session, joinedload

from pipeline.database.models import Artefact
from pipeline.review.errors import UnknownCandidate
from pipeline.review.models import (
    BudgetEntry,
    CandidateCheckpoint,
    CandidateRow,
    CandidateState,
    Decision,
    EvidenceRow,
    ReviewRow,
    Trajectory,
    TrajectoryStep,
)
from pipeline.sweeps.models import Checkpoint, CheckpointStatus, Model
from pipeline.verification.evidence import EVIDENCE_KIND, EVIDENCE_MEDIA
from pipeline.work.models import Run, StageName


def get_candidate(session: Session, candidate_id: int) -> CandidateRow:
    """The candidate with this number. Raises `UnknownCandidate`."""
    candidate = session.get(CandidateRow, candidate_id)
    if candidate is None:
        raise UnknownCandidate(f"There is no candidate {candidate_id}.")
    return candidate


def lock_candidate(session: Session, candidate_id: int) -> CandidateRow:
    """The candidate, locked until the transaction ends, as it is now. Raises `UnknownCandidate`."""
    query = select(CandidateRow).where(CandidateRow.id == candidate_id).with_for_update()
    candidate = session.scalar(query.execution_options(populate_existing=True))
    if candidate is None:
        raise UnknownCandidate(f"There is no candidate {candidate_id}.")
    return candidate


def find_candidate(session: Session, digest: str) -> CandidateRow | None:
    """The candidate with this digest."""
    return session.scalar(select(CandidateRow).where(CandidateRow.digest == digest))


def list_candidates(session: Session, state: str | None = CandidateState.WAITING) -> list[CandidateRow]:
    """Candidates in a state (None: all), oldest first; those that wait in the order they should be looked at.

    That is by the downloads that would then pass, and of equal ones the oldest first.
    """
    query = select(CandidateRow) if state is None else select(CandidateRow).where(CandidateRow.state == state)
    if state != CandidateState.WAITING:
        return list(session.scalars(query.order_by(CandidateRow.id)))
    stake = _downloads_at_stake()
    mine = and_(stake.c.family == CandidateRow.family, stake.c.profile == CandidateRow.profile)
    value = func.coalesce(stake.c.downloads, 0).desc()
    return list(session.scalars(query.outerjoin(stake, mine).order_by(value, CandidateRow.id)))


def _downloads_at_stake() -> Subquery:
    """The downloads of the checkpoints that a release could change, by family and profile: each is summed once."""
    query = select(Checkpoint.family, CheckpointStatus.profile, func.sum(Model.downloads).label("downloads"))
    query = query.select_from(CheckpointStatus).join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id)
    query = query.join(Model, Model.id == Checkpoint.model_id).where(CheckpointStatus.outcome != "passed")
    return query.group_by(Checkpoint.family, CheckpointStatus.profile).subquery("stake")


def refused_of_family(session: Session, family: str, profile: str) -> list[CandidateRow]:
    """Candidates of a family that the gate refused or a human rejected or sent back."""
    states = (CandidateState.REFUSED, CandidateState.REJECTED, CandidateState.CHANGES, CandidateState.WITHDRAWN)
    query = select(CandidateRow).where(CandidateRow.family == family, CandidateRow.profile == profile)
    return list(session.scalars(query.where(CandidateRow.state.in_(states)).order_by(CandidateRow.id)))


def undecided_of_family(session: Session, family: str, profile: str) -> list[CandidateRow]:
    """Candidates of a family that the gate gave neither answer to, or that wait for a human."""
    states = (CandidateState.INCONCLUSIVE, CandidateState.WAITING)
    query = select(CandidateRow).where(CandidateRow.family == family, CandidateRow.profile == profile)
    query = query.where(CandidateRow.state.in_(states))
    return list(session.scalars(query.order_by(CandidateRow.id)))


def draft_runs(session: Session, checkpoint_id: int, profile: str, environment: str) -> list[Run]:
    """The draft runs of a checkpoint in one environment."""
    query = select(Run).where(Run.checkpoint_id == checkpoint_id, Run.profile == profile)
    return list(session.scalars(query.where(Run.stage == StageName.DRAFT, Run.environment == environment)))


def drafts_of_diagnosis(session: Session, diagnose_run_id: int) -> list[Run]:
    """The draft runs that worked from one diagnosis, oldest first."""
    query = select(Run).where(Run.parent_run_id == diagnose_run_id, Run.stage == StageName.DRAFT)
    return list(session.scalars(query.order_by(Run.id)))


def round_began(session: Session, checkpoint_id: int, profile: str) -> datetime | None:
    """When a reviewer last asked for changes to a candidate of a checkpoint: the beginning of its newest round."""
    query = select(func.max(ReviewRow.created_at)).where(ReviewRow.decision == Decision.CHANGES.value)
    query = query.join(CandidateRow, CandidateRow.id == ReviewRow.candidate_id).where(CandidateRow.profile == profile)
    query = query.join(CandidateCheckpoint, CandidateCheckpoint.candidate_id == CandidateRow.id)
    return session.scalar(query.where(CandidateCheckpoint.checkpoint_id == checkpoint_id))


def drafting_steps(
    session: Session, diagnose_run_id: int, but_run_id: int, since: datetime | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The steps of each conversation of a diagnosis (begun at `since` or later), in order, without those of one run."""
    runs = select(Run.id).where(Run.parent_run_id == diagnose_run_id, Run.stage == StageName.DRAFT)
    runs = runs if since is None else runs.where(Run.created_at >= since)
    query = select(Trajectory.id, TrajectoryStep.data).join(TrajectoryStep)
    query = query.where(Trajectory.run_id.in_(runs), Trajectory.run_id != but_run_id)
    found: dict[str, list[dict[str, Any]]] = {}
    for trajectory_id, data in session.execute(query.order_by(Trajectory.id, TrajectoryStep.position)):
        found.setdefault(trajectory_id, []).append(data)
    return found


def waiting_by_checkpoint(session: Session) -> dict[int, int]:
    """Checkpoint to the newest candidate that waits for review for it."""
    query = select(CandidateCheckpoint.checkpoint_id, func.max(CandidateRow.id)).join(CandidateRow)
    query = query.where(CandidateRow.state == CandidateState.WAITING).group_by(CandidateCheckpoint.checkpoint_id)
    return dict(session.execute(query).all())


def candidates_of_checkpoint(session: Session, checkpoint_id: int) -> list[CandidateRow]:
    """The candidates drafted for a checkpoint, newest first."""
    query = select(CandidateRow).join(CandidateCheckpoint, CandidateCheckpoint.candidate_id == CandidateRow.id)
    return list(
        session.scalars(
            query.where(CandidateCheckpoint.checkpoint_id == checkpoint_id).order_by(CandidateRow.id.desc())
        )
    )


def evidence_of(session: Session, candidate_id: int, environment: str) -> list[EvidenceRow]:
    """The evidence for a candidate in one environment."""
    query = select(EvidenceRow).where(EvidenceRow.candidate_id == candidate_id)
    return list(session.scalars(query.where(EvidenceRow.environment == environment).order_by(EvidenceRow.id)))


def list_evidence(session: Session) -> list[EvidenceRow]:
    """All evidence, newest first."""
    return list(session.scalars(select(EvidenceRow).order_by(EvidenceRow.id.desc())))


def evidence_artefacts(session: Session, prefix: str) -> list[str]:
    """Digests of evidence documents that begin with `prefix`."""
    query = select(Artefact.digest).where(Artefact.kind == EVIDENCE_KIND, Artefact.media_type == EVIDENCE_MEDIA)
    return list(session.scalars(query.where(Artefact.digest.startswith(prefix, autoescape=True))))


def failing_in_family(session: Session, family: str, profile: str) -> list[CheckpointStatus]:
    """Checkpoints of a family that do not pass on a profile, most downloaded first: those a release could change."""
    query = select(CheckpointStatus).join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id)
    query = query.join(Model, Model.id == Checkpoint.model_id).where(Checkpoint.family == family)
    query = query.where(CheckpointStatus.profile == profile, CheckpointStatus.outcome != "passed")
    query = query.options(joinedload(CheckpointStatus.checkpoint).joinedload(Checkpoint.model))
    return list(session.scalars(query.order_by(Model.downloads.desc(), Model.id)))


def get_trajectory(session: Session, trajectory_id: str) -> Trajectory | None:
    """The record of a drafting attempt."""
    return session.get(Trajectory, trajectory_id)


def trajectories_of_run(session: Session, run_id: int) -> list[Trajectory]:
    """The records of a run's drafting, oldest first."""
    query = select(Trajectory).where(Trajectory.run_id == run_id)
    return list(session.scalars(query.order_by(Trajectory.created_at, Trajectory.id)))


def next_step(session: Session, trajectory_id: str) -> int:
    """The position of the next step."""
    query = select(func.max(TrajectoryStep.position)).where(TrajectoryStep.trajectory_id == trajectory_id)
    last = session.scalar(query)
    return 0 if last is None else last + 1


def charged_usd(session: Session, day: str) -> float:
    """What a day has been charged: settled amounts, and reservations whose cost is not known."""
    query = select(func.sum(func.coalesce(BudgetEntry.settled_usd, BudgetEntry.reserved_usd)))
    return float(session.scalar(query.where(BudgetEntry.day == day)) or 0.0)


def charged_to_request(session: Session, request_id: str) -> float:
    """What all runs of a request have been charged, on any day."""
    query = select(func.sum(func.coalesce(BudgetEntry.settled_usd, BudgetEntry.reserved_usd)))
    query = query.join(Run, Run.id == BudgetEntry.run_id).where(Run.request_id == request_id)
    return float(session.scalar(query) or 0.0)


def charged_to_requester(session: Session, requester: str, day: str) -> float:
    """What the runs of a requester have been charged on a day."""
    query = select(func.sum(func.coalesce(BudgetEntry.settled_usd, BudgetEntry.reserved_usd)))
    query = query.join(Run, Run.id == BudgetEntry.run_id).where(Run.requester == requester, BudgetEntry.day == day)
    return float(session.scalar(query) or 0.0)


def get_run(session: Session, run_id: int) -> Run | None:
    """The run that drafts."""
    return session.get(Run, run_id)


def get_reservation(session: Session, entry_id: int) -> BudgetEntry:
    """The ledger entry with this number."""
    return session.get_one(BudgetEntry, entry_id)


def sent_back_before(session: Session, candidate: CandidateRow) -> CandidateRow | None:
    """The newest candidate before this one, drafted from the same diagnosis, that a reviewer sent back."""
    drafted = session.get(Run, candidate.draft_run_id) if candidate.draft_run_id else None
    if drafted is None or drafted.parent_run_id is None:
        return None
    query = select(CandidateRow).join(Run, Run.id == CandidateRow.draft_run_id)
    query = query.where(Run.parent_run_id == drafted.parent_run_id, CandidateRow.state == CandidateState.CHANGES)
    return session.scalar(query.where(CandidateRow.id < candidate.id).order_by(CandidateRow.id.desc()).limit(1))
