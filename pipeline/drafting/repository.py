"""Queries of the drafting agents: conversations, accepted patches, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.releases.models import Adapter
from pipeline.review.models import BudgetEntry, CandidateRow, CandidateState, PatchRow, Trajectory, TrajectoryStep
from pipeline.sweeps.models import Checkpoint, CheckpointStatus, Model
from pipeline.work.models import DiagnosisRow, Outcome, Run


def list_trajectories(session: Session, limit: int) -> list[Trajectory]:
    """The newest conversations."""
    query = select(Trajectory).order_by(Trajectory.created_at.desc(), Trajectory.id).limit(limit)
    return list(session.scalars(query))


def steps_of(session: Session, trajectory_id: str) -> list[TrajectoryStep]:
    """The steps of a conversation, in order."""
    query = select(TrajectoryStep).where(TrajectoryStep.trajectory_id == trajectory_id)
    return list(session.scalars(query.order_by(TrajectoryStep.position)))


def find_trajectories(session: Session, prefix: str) -> list[Trajectory]:
    """The conversations whose id begins with `prefix`."""
    query = select(Trajectory).where(Trajectory.id.startswith(prefix, autoescape=True)).limit(2)
    return list(session.scalars(query))


def released_patches(session: Session, scripted: bool) -> list[tuple[PatchRow, CandidateRow]]:
    """Patches of language models in released candidates, newest first; of the script too if `scripted`."""
    query = select(PatchRow, CandidateRow).join(CandidateRow, CandidateRow.id == PatchRow.candidate_id)
    query = query.where(CandidateRow.state == CandidateState.RELEASED, PatchRow.drafter == "llm")
    if not scripted:
        query = query.where(CandidateRow.scripted.is_(False))
    return [(patch, candidate) for patch, candidate in session.execute(query.order_by(PatchRow.id.desc()).limit(200))]


def diagnoses_behind(session: Session, draft_run_id: int) -> list[DiagnosisRow]:
    """The diagnoses that a draft run worked from."""
    run = session.get(Run, draft_run_id)
    if run is None or run.parent_run_id is None:
        return []
    return list(session.scalars(select(DiagnosisRow).where(DiagnosisRow.run_id == run.parent_run_id)))


class CallsOfRun(NamedTuple):
    """The calls of one run to one model."""

    run_id: int | None
    model: str
    calls: int
    unknown: int
    known_usd: float
    charged_usd: float


def calls_by_run(session: Session) -> list[CallsOfRun]:
    """Of each run and model: calls, calls of unknown cost, known USD, charged USD (unknown ones as reserved)."""
    answered = func.count(BudgetEntry.settled_usd)
    known = func.sum(func.coalesce(BudgetEntry.settled_usd, 0.0))
    charged = func.sum(func.coalesce(BudgetEntry.settled_usd, BudgetEntry.reserved_usd))
    query = select(BudgetEntry.run_id, BudgetEntry.purpose, func.count(BudgetEntry.id), answered, known, charged)
    rows = session.execute(query.group_by(BudgetEntry.run_id, BudgetEntry.purpose).order_by(BudgetEntry.run_id))
    return [CallsOfRun(r[0], r[1], r[2], r[2] - r[3], float(r[4]), float(r[5])) for r in rows]


def llm_candidates(session: Session) -> list[CandidateRow]:
    """Candidates with a patch of a language model."""
    patches = select(PatchRow.candidate_id).where(PatchRow.drafter == "llm")
    return list(session.scalars(select(CandidateRow).where(CandidateRow.id.in_(patches)).order_by(CandidateRow.id)))


def models_passing_with(session: Session, candidate_ids: Sequence[int]) -> dict[int, list[tuple[str, int]]]:
    """Candidate to name and downloads of the models that pass with the adapter it became."""
    query = select(Adapter.candidate_id, Model.name, Model.downloads)
    query = query.join(CheckpointStatus, CheckpointStatus.adapter_id == Adapter.id)
    query = query.join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id)
    query = query.join(Model, Model.id == Checkpoint.model_id)
    query = query.where(CheckpointStatus.outcome == Outcome.PASSED, Adapter.candidate_id.in_(candidate_ids))
    found: dict[int, list[tuple[str, int]]] = {}
    for candidate_id, name, downloads in session.execute(query.order_by(Model.name)):
        found.setdefault(int(candidate_id or 0), []).append((name, int(downloads or 0)))
    return found
