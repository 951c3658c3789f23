"""Every query that only the API and the pages need: lists by cursor, counts, what blocks most, how long a wait is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, Select, and_, case, func, or_, select
from sqlalchemy.orm import Session, selectinload

from api.cursors import Cursor
from pipeline.database.models import Artefact, LoginSession, OutboxEvent, Principal, SessionKind
from pipeline.errors import NotFound
from pipeline.releases.models import Adapter
from pipeline.review.models import CandidateCheckpoint, CandidateRow, CandidateState, EvidenceRow, ReviewRow
from pipeline.sweeps.models import CatalogueEntry, Checkpoint, CheckpointStatus, Model, Sweep, SweepRun
from pipeline.sweeps.repository import newest_checkpoints
from pipeline.work.environment import environment_digest
from pipeline.work.models import DiagnosisRow, FailureRow, Outcome, Run, RunState, StageName

NOT_RUN, WAITING = "not_run", "waiting"
MOST_OF_A_KIND = 500
"""A page reads at most so many rows of one table."""
OUTCOMES = (*(outcome.value for outcome in Outcome), NOT_RUN, WAITING)
"""What a list can be narrowed to. Left-out models are among the failed ones, as those that wait for review are."""


class ModelRow(NamedTuple):
    """A model with its status on one profile, its waiting candidate, and its catalogue row if it has no status."""

    model: Model
    status: CheckpointStatus | None
    waiting: int | None
    entry: CatalogueEntry | None


class Narrow(NamedTuple):
    """What a list of models is narrowed to; an empty field narrows nothing."""

    search: str = ""
    family: str = ""
    op: str = ""
    kind: str = ""
    adapter: int = 0
    weights: str = ""
    stale: bool = False


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


def _models_with_status(profile: str, *, judged: bool = False) -> Select[Model, CheckpointStatus | None]:
    """Models with the status of their newest checkpoint; with `judged`, only those that have one.

    The conditions of a narrowed list need a status. Told so, SQLite begins at the checkpoints; an outer join whose
    result is narrowed afterwards it would answer by looking at every pair of a model and a status.
    """
    newest = newest_checkpoints()
    on_profile = (CheckpointStatus.checkpoint_id == newest.c.id) & (CheckpointStatus.profile == profile)
    models: Select[Model, CheckpointStatus | None] = select(Model, CheckpointStatus).select_from(Model)
    models = models.join(newest, newest.c.model_id == Model.id, isouter=not judged)
    return models.join(CheckpointStatus, on_profile, isouter=not judged)


def _waiting_checkpoints(profile: str | BindParameter[str]) -> Select[int]:
    """Checkpoints for which a candidate waits for review on the profile."""
    query = select(CandidateCheckpoint.checkpoint_id).join(CandidateRow)
    return query.where(CandidateRow.state == CandidateState.WAITING, CandidateRow.profile == profile)


def _dropped() -> ColumnElement[bool]:
    """The newest catalogue row of the model left it out."""
    newest = select(func.max(CatalogueEntry.id)).group_by(CatalogueEntry.model_id)
    left_out = select(CatalogueEntry.model_id).where(CatalogueEntry.id.in_(newest))
    return Model.id.in_(left_out.where(CatalogueEntry.dropped_kind.is_not(None)))


def having(outcome: str, profile: str | BindParameter[str]) -> list[ColumnElement[bool]]:
    """What a model and its status must be for a list narrowed to `outcome` (one of `OUTCOMES`)."""
    if outcome == NOT_RUN:
        return [CheckpointStatus.checkpoint_id.is_(None), ~_dropped()]
    if outcome == Outcome.FAILED:
        return [or_(CheckpointStatus.outcome == outcome, CheckpointStatus.checkpoint_id.is_(None) & _dropped())]
    if outcome == WAITING:
        waiting = CheckpointStatus.checkpoint_id.in_(_waiting_checkpoints(profile))
        return [CheckpointStatus.outcome == Outcome.FAILED, waiting]
    return [CheckpointStatus.outcome == outcome]


def follows(cursor: Cursor) -> ColumnElement[bool]:
    """What follows the cursor in its order."""
    if cursor.sort == "name":
        return Model.name > cursor.value
    return or_(Model.downloads < cursor.value, and_(Model.downloads == cursor.value, Model.id > cursor.id))


ORDER: dict[str, tuple[Any, ...]] = {"downloads": (Model.downloads.desc(), Model.id), "name": (Model.name,)}


def list_models(
    session: Session, profile: str, *, narrow: Narrow, outcome: str | None, sort: str, after: Cursor | None, limit: int
) -> list[ModelRow]:
    """At most `limit` models after the cursor, in the order of `sort` (`downloads` or `name`)."""
    models = _models_with_status(profile, judged=outcome in _JUDGED or _needs_status(narrow))
    query = models.order_by(*ORDER[sort]).limit(limit).where(*_narrowed(narrow, profile))
    if outcome:
        query = query.where(*having(outcome, profile))
    if after:
        query = query.where(follows(after))
    return _complete(session, profile, session.execute(query).all())


_JUDGED = frozenset({Outcome.PASSED.value, Outcome.UNKNOWN.value, Outcome.INFRA.value, WAITING})
"""Outcomes that only a model with a status can have."""


def _needs_status(narrow: Narrow) -> bool:
    return bool(narrow.op or narrow.kind or narrow.adapter or narrow.weights or narrow.stale)


def _narrowed(narrow: Narrow, profile: str) -> list[ColumnElement[bool]]:
    """The conditions of the fields that are set."""
    families = select(Checkpoint.model_id).where(Checkpoint.family == narrow.family)
    failing = select(FailureRow.run_id).where(FailureRow.op == narrow.op)
    conditions = {
        "search": Model.name.icontains(narrow.search, autoescape=True),
        "family": Model.id.in_(families),
        "op": (CheckpointStatus.outcome != Outcome.PASSED) & CheckpointStatus.run_id.in_(failing),
        "kind": CheckpointStatus.kind == narrow.kind,
        "adapter": CheckpointStatus.adapter_id == narrow.adapter,
        "weights": (CheckpointStatus.outcome == Outcome.PASSED) & (CheckpointStatus.weights == narrow.weights),
        "stale": CheckpointStatus.environment != environment_digest(profile),
    }
    return [conditions[name] for name, value in narrow._asdict().items() if value]


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


def count_outcomes(session: Session, profile: str, narrow: Narrow) -> dict[str, int]:
    """How many models the list shows for each outcome; those that wait are among the failed ones."""
    without = case((_dropped(), Outcome.FAILED.value), else_=NOT_RUN)
    outcome = func.coalesce(CheckpointStatus.outcome, without)
    models = _models_with_status(profile, judged=_needs_status(narrow))
    counted = models.with_only_columns(outcome, func.count(Model.id)).group_by(outcome)
    narrowed = _narrowed(narrow, profile)
    found = dict(session.execute(counted.where(*narrowed)).all()) | {
        WAITING: _count_waiting(session, profile, narrowed)
    }
    return {name: found.get(name, 0) for name in OUTCOMES}


def _count_waiting(session: Session, profile: str, narrowed: Sequence[ColumnElement[bool]]) -> int:
    """Models with a candidate that waits. Begins at the candidates: they are few."""
    waiting = _waiting_checkpoints(profile).distinct().subquery()
    newest = select(func.max(Checkpoint.id)).group_by(Checkpoint.model_id)
    on_profile = (CheckpointStatus.checkpoint_id == waiting.c.checkpoint_id) & (CheckpointStatus.profile == profile)
    query = select(func.count()).select_from(waiting).join(CheckpointStatus, on_profile)
    query = query.join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id)
    query = query.join(Model, Model.id == Checkpoint.model_id).where(*narrowed)
    query = query.where(CheckpointStatus.outcome == Outcome.FAILED, CheckpointStatus.checkpoint_id.in_(newest))
    return session.scalar(query) or 0


def review_load(session: Session) -> Queue:
    """How many candidates wait, and since when the oldest does."""
    query = select(func.count(CandidateRow.id), func.min(CandidateRow.updated_at))
    count, oldest = session.execute(query.where(CandidateRow.state == CandidateState.WAITING)).one()
    return Queue(count, oldest)


def values_of_candidates(session: Session, candidate_ids: Sequence[int]) -> dict[int, Value]:
    """Candidate to the models of its family that do not pass on its profile: those that would then pass."""
    failing = (CheckpointStatus.profile == CandidateRow.profile) & (CheckpointStatus.outcome != Outcome.PASSED)
    query = (
        select(CandidateRow.id, func.count(), func.sum(Model.downloads))
        .join(Checkpoint, Checkpoint.family == CandidateRow.family)
        .join(CheckpointStatus, (CheckpointStatus.checkpoint_id == Checkpoint.id) & failing)
        .join(Model, Model.id == Checkpoint.model_id)
        .where(CandidateRow.id.in_(candidate_ids))
        .group_by(CandidateRow.id)
    )
    found = session.execute(query) if candidate_ids else ()
    return {number: Value(models, int(downloads)) for number, models, downloads in found}


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


def preload_candidates(session: Session, candidate_ids: Sequence[int]) -> None:
    """Read what a list of candidates shows of each in one query per table instead of one per candidate."""
    shown = (selectinload(CandidateRow.patches), selectinload(CandidateRow.checkpoints))
    query = select(CandidateRow).where(CandidateRow.id.in_(candidate_ids))
    session.scalars(query.options(*shown, selectinload(CandidateRow.evidence))).all()


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
