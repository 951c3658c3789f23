"""Every query that only the API and the pages need: lists by cursor, counts, what blocks most, how long a wait is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, selectinload

from pipeline.database.models import Artefact, LoginSession, OutboxEvent, Principal, SessionKind
from pipeline.errors import NotFound
from pipeline.releases.models import Adapter
from pipeline.review.models import CandidateCheckpoint, CandidateRow, CandidateState, EvidenceRow, ReviewRow
from pipeline.sweeps.models import CatalogueEntry, Checkpoint, CheckpointStatus, Model, Sweep, SweepRun
from pipeline.sweeps.repository import newest_checkpoints
from pipeline.work.models import DiagnosisRow, FailureRow, Outcome, Run, RunState, StageName

MOST_OF_A_KIND = 500
"""A page reads at most so many rows of one table."""


class ModelRow(NamedTuple):
    """A model with its status on one profile, its waiting candidate, and its catalogue row if it has no status."""

    model: Model
    status: CheckpointStatus | None
    waiting: int | None
    entry: CatalogueEntry | None


class BlockingOp(NamedTuple):
    """An operation that fails in models that do not pass, with how many and their downloads."""

    op: str
    models: int
    downloads: int


class Value(NamedTuple):
    """What a candidate is worth: models that would then pass, and their downloads."""

    models: int
    downloads: int


class Progress(NamedTuple):
    """How far a sweep is, in runs known so far."""

    done: int
    total: int


class Queue(NamedTuple):
    """What waits for review, and since when the oldest does."""

    waiting: int
    oldest: datetime | None


def _models_with_status(profile: str) -> Select[Model, CheckpointStatus | None]:
    """Models with the status of their newest checkpoint."""
    newest = newest_checkpoints()
    on_profile = (CheckpointStatus.checkpoint_id == newest.c.id) & (CheckpointStatus.profile == profile)
    models: Select[Model, CheckpointStatus | None] = select(Model, CheckpointStatus).select_from(Model)
    models = models.join(newest, newest.c.model_id == Model.id, isouter=True)
    return models.join(CheckpointStatus, on_profile, isouter=True)


def row_of_model(session: Session, profile: str, model: Model, checkpoint_id: int | None = None) -> ModelRow:
    """One model as the list shows it; or at one of its checkpoints."""
    if checkpoint_id is not None:
        status = session.get(CheckpointStatus, (checkpoint_id, profile))
        return _complete(session, profile, [(model, status)])[0]
    rows = session.execute(_models_with_status(profile).where(Model.id == model.id)).all()
    return _complete(session, profile, rows)[0]


def _complete(session: Session, profile: str, rows: Sequence[tuple[Model, CheckpointStatus | None]]) -> list[ModelRow]:
    failed = [s.checkpoint_id for _, s in rows if s is not None and s.outcome == Outcome.FAILED]
    waiting = waiting_candidates(session, failed, profile)
    entries = newest_entries(session, [m.id for m, s in rows if s is None])
    return [ModelRow(m, s, waiting.get(s.checkpoint_id) if s else None, entries.get(m.id)) for m, s in rows]


def waiting_candidates(session: Session, checkpoint_ids: Sequence[int], profile: str) -> dict[int, int]:
    """Checkpoint to the newest candidate that waits for review for it."""
    query = (
        select(CandidateCheckpoint.checkpoint_id, func.max(CandidateRow.id))
        .join(CandidateRow, CandidateRow.id == CandidateCheckpoint.candidate_id)
        .where(CandidateRow.state == CandidateState.WAITING, CandidateRow.profile == profile)
        .where(CandidateCheckpoint.checkpoint_id.in_(checkpoint_ids))
        .group_by(CandidateCheckpoint.checkpoint_id)
    )
    return dict(session.execute(query).all()) if checkpoint_ids else {}


def newest_entries(session: Session, model_ids: Sequence[int]) -> dict[int, CatalogueEntry]:
    """Model to its newest catalogue row."""
    newest = select(func.max(CatalogueEntry.id)).where(CatalogueEntry.model_id.in_(model_ids))
    query = select(CatalogueEntry).where(CatalogueEntry.id.in_(newest.group_by(CatalogueEntry.model_id)))
    return {entry.model_id: entry for entry in session.scalars(query)} if model_ids else {}


def count_listed(session: Session) -> int:
    """How many models are known."""
    return session.scalar(select(func.count(Model.id))) or 0


def review_load(session: Session) -> Queue:
    """How many candidates wait, and since when the oldest does."""
    query = select(func.count(CandidateRow.id), func.min(CandidateRow.updated_at))
    count, oldest = session.execute(query.where(CandidateRow.state == CandidateState.WAITING)).one()
    return Queue(count, oldest)


def values_of_candidates(session: Session, candidate_ids: Sequence[int]) -> dict[int, Value]:
    """Candidate to the models of its family that do not pass on its profile: those that would then pass.

    Each family is counted once, however many candidates it has.
    """
    if not candidate_ids:
        return {}
    chosen = CandidateRow.id.in_(candidate_ids)
    failing = (
        select(Checkpoint.family, CheckpointStatus.profile, func.count().label("models"))
        .add_columns(func.sum(Model.downloads).label("downloads"))
        .select_from(Checkpoint)
        .join(CheckpointStatus, CheckpointStatus.checkpoint_id == Checkpoint.id)
        .join(Model, Model.id == Checkpoint.model_id)
        .where(CheckpointStatus.outcome != Outcome.PASSED)
        .where(Checkpoint.family.in_(select(CandidateRow.family).where(chosen)))
        .group_by(Checkpoint.family, CheckpointStatus.profile)
        .subquery("failing")
    )
    mine = (failing.c.family == CandidateRow.family) & (failing.c.profile == CandidateRow.profile)
    query = select(CandidateRow.id, failing.c.models, failing.c.downloads).join(failing, mine).where(chosen)
    return {number: Value(models, int(downloads)) for number, models, downloads in session.execute(query)}


def waiting_by_value(session: Session, limit: int) -> list[tuple[int, Value]]:
    """The waiting candidates and what each is worth, most downloads first, then the oldest."""
    query = select(CandidateRow.id).where(CandidateRow.state == CandidateState.WAITING)
    values = values_of_candidates(session, list(session.scalars(query)))
    order = query.order_by(CandidateRow.updated_at, CandidateRow.id)
    found = [(number, values.get(number, Value(0, 0))) for number in session.scalars(order)]
    return sorted(found, key=lambda row: -row[1].downloads)[:limit]


def newest_candidates(session: Session, limit: int) -> list[tuple[int, Value]]:
    """The newest candidates in any state, and what each is worth."""
    numbers = list(session.scalars(select(CandidateRow.id).order_by(CandidateRow.id.desc()).limit(limit)))
    values = values_of_candidates(session, numbers)
    return [(number, values.get(number, Value(0, 0))) for number in numbers]


def blocking_ops(session: Session, profile: str, limit: int) -> list[BlockingOp]:
    """The operations that fail in models that do not pass on the profile, most downloads first."""
    newest = newest_checkpoints()
    failing = (
        select(FailureRow.op, newest.c.model_id)
        .join(CheckpointStatus, CheckpointStatus.run_id == FailureRow.run_id)
        .join(newest, newest.c.id == CheckpointStatus.checkpoint_id)
        .where(CheckpointStatus.profile == profile, CheckpointStatus.outcome == Outcome.FAILED, FailureRow.op != "")
        .distinct()
        .subquery()
    )
    downloads = func.sum(Model.downloads)
    query = select(failing.c.op, func.count(), downloads).join(Model, Model.id == failing.c.model_id)
    rows = session.execute(query.group_by(failing.c.op).order_by(downloads.desc(), failing.c.op).limit(limit))
    return [BlockingOp(op, models, int(total)) for op, models, total in rows]


def sweep_progress(session: Session, sweep_id: int) -> Progress:
    """Runs of a sweep that are done, of those known so far: a stage that ends well makes the next."""
    query = select(Run.state, func.count()).join(SweepRun, SweepRun.run_id == Run.id)
    counts = dict(session.execute(query.where(SweepRun.sweep_id == sweep_id).group_by(Run.state)).all())
    return Progress(counts.get(RunState.DONE, 0), sum(counts.values()))


def same_fingerprint(session: Session, status: CheckpointStatus, limit: int = 20) -> list[CheckpointStatus]:
    """Other checkpoints whose graph is the same, on the same profile."""
    if status.fingerprint is None:
        return []
    query = select(CheckpointStatus).where(CheckpointStatus.fingerprint == status.fingerprint)
    query = query.where(
        CheckpointStatus.profile == status.profile, CheckpointStatus.checkpoint_id != status.checkpoint_id
    )
    return list(session.scalars(query.limit(limit)))


def runs_of_request(session: Session, request_id: str) -> list[Run]:
    """The runs a request needs, oldest first; some were made by others before it."""
    query = select(Run).join(SweepRun, SweepRun.run_id == Run.id).join(Sweep, Sweep.id == SweepRun.sweep_id)
    return list(session.scalars(query.where(Sweep.request_id == request_id).order_by(Run.id)))


def mean_run_s(session: Session, newest: int = 50) -> float | None:
    """Mean seconds of the newest finished runs; None if none has been timed."""
    timed = select(Run.seconds).where(Run.seconds.is_not(None)).order_by(Run.id.desc()).limit(newest).subquery()
    mean = session.scalar(select(func.avg(timed.c.seconds)))
    return None if mean is None else float(mean)


def get_artefact(session: Session, digest: str) -> Artefact:
    """The row of a stored artefact. Raises `NotFound`."""
    artefact = session.get(Artefact, digest)
    if artefact is None:
        raise NotFound(f"No artefact {digest!r} is stored.")
    return artefact


def get_run(session: Session, run_id: int) -> Run:
    """The run with this number. Raises `NotFound`."""
    run = session.get(Run, run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.")
    return run


def diagnoses_of_candidate(session: Session, candidate: CandidateRow) -> list[dict[str, Any]]:
    """The diagnoses a candidate was drafted from (`agents.types.Diagnosis` as plain data); none if it is not known."""
    drafted = candidate
    while drafted.draft_run_id is None and drafted.struck_from_id is not None:
        drafted = session.get_one(CandidateRow, drafted.struck_from_id)
    run = session.get(Run, drafted.draft_run_id) if drafted.draft_run_id else None
    while run is not None and run.stage != StageName.DIAGNOSE:
        run = session.get(Run, run.parent_run_id) if run.parent_run_id else None
    return [diagnosis.data for diagnosis in run.diagnoses] if run else []


def round_before(session: Session, candidate: CandidateRow) -> CandidateRow | None:
    """The candidate that this one stands in for: the one a patch was struck from, or the last one sent back."""
    if candidate.struck_from_id is not None:
        return session.get_one(CandidateRow, candidate.struck_from_id)
    query = select(CandidateRow).where(CandidateRow.family == candidate.family, CandidateRow.id < candidate.id)
    query = query.where(CandidateRow.profile == candidate.profile, CandidateRow.state == CandidateState.CHANGES)
    return session.scalar(query.order_by(CandidateRow.id.desc()).limit(1))


def claimant(session: Session, candidate: CandidateRow, now: datetime) -> str | None:
    """Who holds the candidate now; None if nobody does."""
    if candidate.claimed_by_id is None or candidate.claim_expires_at is None or candidate.claim_expires_at <= now:
        return None
    return session.get_one(Principal, candidate.claimed_by_id).name


def decisions(session: Session, candidate: CandidateRow) -> list[tuple[ReviewRow, str]]:
    """What was decided on a candidate, and by whom."""
    query = select(ReviewRow, Principal.name).join(Principal, Principal.id == ReviewRow.principal_id)
    found = session.execute(query.where(ReviewRow.candidate_id == candidate.id).order_by(ReviewRow.id))
    return [(review, name) for review, name in found]


def served_by_adapters(session: Session) -> dict[int, int]:
    """Adapter to how many models run with it now."""
    query = select(CheckpointStatus.adapter_id, func.count()).where(CheckpointStatus.outcome == Outcome.PASSED)
    found = session.execute(query.group_by(CheckpointStatus.adapter_id))
    return {adapter: count for adapter, count in found if adapter is not None}


def statuses_with_adapter(session: Session, adapter_id: int, limit: int = 200) -> list[CheckpointStatus]:
    """The checkpoints whose status rests on an adapter and passes."""
    query = select(CheckpointStatus).where(CheckpointStatus.adapter_id == adapter_id)
    return list(session.scalars(query.where(CheckpointStatus.outcome == Outcome.PASSED).limit(limit)))


def events_about(session: Session, kinds: Sequence[str], before: int | None, limit: int) -> list[OutboxEvent]:
    """What happened to subjects of these kinds, newest first, each event once: in the stream of its own subject."""
    own = OutboxEvent.stream == OutboxEvent.subject_kind + ":" + OutboxEvent.subject_id
    query = select(OutboxEvent).where(OutboxEvent.subject_kind.in_(kinds), own)
    query = query.where(OutboxEvent.id < before) if before else query
    return list(session.scalars(query.order_by(OutboxEvent.id.desc()).limit(limit)))


def newest_decisions(session: Session, limit: int) -> list[tuple[ReviewRow, str]]:
    """The newest decisions of reviewers, and who took them."""
    query = select(ReviewRow, Principal.name).join(Principal, Principal.id == ReviewRow.principal_id)
    return [(review, name) for review, name in session.execute(query.order_by(ReviewRow.id.desc()).limit(limit))]


def sessions_of(session: Session, principal_id: int, now: datetime) -> list[LoginSession]:
    """The live sessions and tokens of a principal, newest first."""
    query = select(LoginSession).where(LoginSession.principal_id == principal_id, LoginSession.revoked_at.is_(None))
    query = query.where(LoginSession.expires_at > now, LoginSession.kind != SessionKind.LOGIN)
    return list(session.scalars(query.order_by(LoginSession.id.desc())))


def own_session(session: Session, principal_id: int, number: int) -> LoginSession:
    """A session of this principal. Raises `NotFound` for anybody else's, as for one that does not exist."""
    row = session.get(LoginSession, number)
    if row is None or row.principal_id != principal_id:
        raise NotFound(f"You have no session {number}.")
    return row


def evidence_of_checkpoint(session: Session, checkpoint_id: int, limit: int = 50) -> list[EvidenceRow]:
    """What the gate measured for candidates on a checkpoint, newest first."""
    query = select(EvidenceRow).where(EvidenceRow.checkpoint_id == checkpoint_id)
    return list(session.scalars(query.order_by(EvidenceRow.id.desc()).limit(limit)))


def get_diagnosis(session: Session, number: int) -> DiagnosisRow:
    """The diagnosis with this number. Raises `NotFound`."""
    row = session.get(DiagnosisRow, number)
    if row is None:
        raise NotFound(f"There is no diagnosis {number}.")
    return row


def adapter_of_candidate(session: Session, candidate_id: int) -> int | None:
    """The number of the adapter that a candidate was released as."""
    return session.scalar(select(Adapter.id).where(Adapter.candidate_id == candidate_id).limit(1))


def candidates_of(session: Session, numbers: Sequence[int]) -> list[CandidateRow]:
    """These candidates in this order, with what a list shows of each: one query per table, not one per candidate."""
    shown = (selectinload(CandidateRow.patches), selectinload(CandidateRow.checkpoints))
    query = select(CandidateRow).where(CandidateRow.id.in_(numbers))
    found = {row.id: row for row in session.scalars(query.options(*shown, selectinload(CandidateRow.evidence)))}
    return [found[number] for number in numbers]


def diagnoses_where(model: str | None, kind: str | None, op: str | None) -> Select[DiagnosisRow]:
    """The diagnoses of a model, of a kind, of an operation; None narrows nothing."""
    query = select(DiagnosisRow).options(selectinload(DiagnosisRow.run))
    if model is not None:
        query = query.join(Checkpoint, Checkpoint.id == DiagnosisRow.checkpoint_id)
        query = query.join(Model, Model.id == Checkpoint.model_id).where(Model.name == model)
    wanted = {DiagnosisRow.kind: kind, DiagnosisRow.op: op}
    return query.where(*(column == value for column, value in wanted.items() if value is not None))


def candidates_where(state: str | None, family: str | None, profile: str | None) -> Select[CandidateRow]:
    """The candidates in a state, of a family, on a profile; None narrows nothing."""
    wanted = {CandidateRow.state: state, CandidateRow.family: family, CandidateRow.profile: profile}
    shown = (selectinload(CandidateRow.patches), selectinload(CandidateRow.checkpoints))
    query = select(CandidateRow).options(*shown, selectinload(CandidateRow.evidence))
    return query.where(*(column == value for column, value in wanted.items() if value is not None))


def evidence_where(candidate_id: int | None, outcome: str | None) -> Select[EvidenceRow]:
    """The evidence of a candidate, with an outcome; None narrows nothing."""
    wanted = {EvidenceRow.candidate_id: candidate_id, EvidenceRow.outcome: outcome}
    return select(EvidenceRow).where(*(column == value for column, value in wanted.items() if value is not None))


def get_evidence(session: Session, number: int) -> EvidenceRow:
    """The evidence with this number. Raises `NotFound`."""
    row = session.get(EvidenceRow, number)
    if row is None:
        raise NotFound(f"There is no evidence {number}.")
    return row


def models_of_checkpoints(session: Session, checkpoint_ids: Sequence[int]) -> dict[int, str]:
    """Checkpoint to the name of its model."""
    query = select(Checkpoint.id, Model.name).join(Model, Model.id == Checkpoint.model_id)
    return dict(session.execute(query.where(Checkpoint.id.in_(checkpoint_ids))).all()) if checkpoint_ids else {}
