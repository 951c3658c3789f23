"""Every query on models, checkpoints, snapshots, sweeps and current status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    FromClause,
    ScalarSelect,
    Select,
    Subquery,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import Session, aliased, joinedload, selectinload

from pipeline.database.facts import demo_mark
from pipeline.database.insert import insert_or_return
from pipeline.database.prepared import Prepared
from pipeline.releases.models import Adapter
from pipeline.sweeps.errors import UnknownModel, UnknownSweep
from pipeline.sweeps.models import (
    Capability,
    CatalogueEntry,
    CatalogueSnapshot,
    Checkpoint,
    CheckpointStatus,
    Model,
    Sweep,
    SweepRun,
    SweepState,
)
from pipeline.work.models import ACTIVE_STATES, FailureRow, Outcome, Run, RunState


def _claims(status: Any) -> dict[str, ColumnElement[bool]]:
    """What a model's status must be to count in each figure; `status` has the columns of `CheckpointStatus`."""
    honest = ~status.scripted
    passes = honest & (status.outcome == Outcome.PASSED)
    return {
        "supported": honest & status.supported,
        "passing_real": passes & (status.weights == "real"),
        "passing_synthetic": passes & (status.weights == "synthetic"),
        "truncated": passes & status.depth.is_not(None),
    }


CLAIMS: dict[str, ColumnElement[bool]] = {"total": Model.id.is_not(None), **_claims(CheckpointStatus)}
"""The figures of coverage, each with what a model (and its status, if it has one) must be to count; `total` first."""


class Counted(NamedTuple):
    """The figures of `CLAIMS` over some models: how many they are, and their downloads."""

    models: dict[str, int]
    downloads: dict[str, int]


def get_model(session: Session, name: str) -> Model:
    """The model with this Hub id. Raises `UnknownModel`."""
    model = session.scalar(select(Model).where(Model.name == name))
    if model is None:
        raise UnknownModel(f"No catalogue here lists {name!r}: check the spelling, or request it.")
    return model


def get_sweep(session: Session, sweep_id: int) -> Sweep:
    """The sweep with this number. Raises `UnknownSweep`."""
    sweep = session.get(Sweep, sweep_id)
    if sweep is None:
        raise UnknownSweep(f"There is no sweep {sweep_id}.")
    return sweep


def find_snapshot(session: Session, digest: str) -> CatalogueSnapshot | None:
    """The snapshot with this content."""
    return session.scalar(select(CatalogueSnapshot).where(CatalogueSnapshot.digest == digest))


def latest_snapshot(session: Session) -> CatalogueSnapshot | None:
    """The catalogue listed last; the one-model snapshots of requests are no catalogues."""
    query = select(CatalogueSnapshot).where(CatalogueSnapshot.source.not_like("request %"))
    return session.scalar(query.order_by(CatalogueSnapshot.id.desc()).limit(1))


def entries_of(session: Session, snapshot_id: int, top: int | None) -> list[CatalogueEntry]:
    """The first `top` entries of a snapshot in its sweep order, dropped ones included."""
    query = select(CatalogueEntry).where(CatalogueEntry.snapshot_id == snapshot_id)
    query = query.options(joinedload(CatalogueEntry.checkpoint))
    return list(session.scalars(query.order_by(CatalogueEntry.position).limit(top)))


def checkpoints_by_id(session: Session, numbers: Iterable[int]) -> list[Checkpoint]:
    """The checkpoints with these numbers, in the order of the numbers."""
    return list(session.scalars(select(Checkpoint).where(Checkpoint.id.in_(numbers)).order_by(Checkpoint.id)))


def unfinished_sweeps(session: Session) -> list[Sweep]:
    """Sweeps that are running, oldest first."""
    return list(session.scalars(select(Sweep).where(Sweep.state == "running").order_by(Sweep.id)))


def list_sweeps(session: Session, limit: int = 50) -> list[Sweep]:
    """The newest sweeps, those of requests left out: a request is followed by its own id."""
    query = select(Sweep).where(Sweep.request_id.is_(None))
    return list(session.scalars(query.order_by(Sweep.id.desc()).limit(limit)))


def sweeps_of_run(session: Session, run_id: int) -> list[int]:
    """The sweeps that need this run, cancelled ones left out."""
    query = select(SweepRun.sweep_id).join(Sweep, Sweep.id == SweepRun.sweep_id)
    return list(session.scalars(query.where(SweepRun.run_id == run_id, Sweep.state != SweepState.CANCELLED)))


def link_run(session: Session, sweep_id: int, run: Run) -> None:
    """Note that a sweep needs this run; `fresh` if its result was not there when the sweep began."""
    began = session.get_one(Sweep, sweep_id).created_at
    fresh = run.state != RunState.DONE or run.finished_at is None or run.finished_at >= began
    insert_or_return(session, SweepRun, {"sweep_id": sweep_id, "run_id": run.id}, {"fresh": fresh})


def count_unfinished_runs(session: Session, sweep_id: int) -> int:
    """How many runs a sweep still waits for."""
    query = select(func.count(Run.id)).select_from(Run).join(SweepRun, SweepRun.run_id == Run.id)
    return session.scalar(query.where(SweepRun.sweep_id == sweep_id, Run.state.in_(ACTIVE_STATES))) or 0


def sweep_runs(session: Session, sweep_id: int, checkpoint_ids: Sequence[int] | None = None) -> list[tuple[Run, bool]]:
    """The runs of a sweep, or of these checkpoints in it, with their `fresh` mark, in the order they were made."""
    query = select(Run, SweepRun.fresh).join(SweepRun, SweepRun.run_id == Run.id)
    query = query if checkpoint_ids is None else query.where(Run.checkpoint_id.in_(checkpoint_ids))
    query = query.where(SweepRun.sweep_id == sweep_id).options(selectinload(Run.failures)).order_by(Run.id)
    rows = session.execute(query).all()
    return [(run, fresh) for run, fresh in rows]


def stage_costs(session: Session, sweep_id: int) -> dict[str, dict[str, float]]:
    """The `runs` and their `seconds` of every stage that a sweep ran anew, the dearest first."""
    spent = func.coalesce(func.sum(Run.seconds), 0.0)
    query = select(Run.stage, func.count(Run.id), spent).join(SweepRun, SweepRun.run_id == Run.id)
    query = query.where(SweepRun.sweep_id == sweep_id, SweepRun.fresh, Run.state == RunState.DONE)
    rows = session.execute(query.group_by(Run.stage).order_by(spent.desc()))
    return {stage: {"runs": count, "seconds": float(seconds or 0.0)} for stage, count, seconds in rows}


def find_capability(session: Session, graph_key: str, adapter_digest: str, environment: str) -> Capability | None:
    """The cached capability report for this graph, adapter and environment."""
    key = {"graph_key": graph_key, "adapter_digest": adapter_digest, "environment": environment}
    return session.scalar(select(Capability).filter_by(**key))


def statuses(session: Session, profile: str) -> list[CheckpointStatus]:
    """The current status of every model's newest checkpoint on a profile, most downloaded first."""
    return list(session.scalars(_status_query(profile)))


def _newest_checkpoint() -> ScalarSelect[int | None]:
    other = aliased(Checkpoint)
    return select(func.max(other.id)).where(other.model_id == Model.id).correlate(Model).scalar_subquery()


def _status_query(profile: str) -> Select[Any]:
    return (
        select(CheckpointStatus)
        .join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id)
        .join(Model, (Model.id == Checkpoint.model_id) & (Checkpoint.id == _newest_checkpoint()))
        .where(CheckpointStatus.profile == profile)
        .order_by(Model.downloads.desc(), Model.id)
    )


def statuses_of_model(session: Session, model_id: int) -> list[CheckpointStatus]:
    """The status of a model's checkpoints on every profile."""
    query = select(CheckpointStatus).join(Checkpoint, Checkpoint.id == CheckpointStatus.checkpoint_id)
    return list(session.scalars(query.where(Checkpoint.model_id == model_id).order_by(CheckpointStatus.profile)))


def page_of_models(
    session: Session, profile: str, search: str, outcome: str | None, after: tuple[int, int] | None, limit: int | None
) -> Sequence[tuple[Model, CheckpointStatus | None]]:
    """Models with their status on `profile`, most downloaded first, after the (downloads, id) of the last row seen."""
    query = (
        select(Model, CheckpointStatus)
        .select_from(Model)
        .outerjoin(Checkpoint, Checkpoint.id == _newest_checkpoint())
        .outerjoin(
            CheckpointStatus,
            (CheckpointStatus.checkpoint_id == Checkpoint.id) & (CheckpointStatus.profile == profile),
        )
        .order_by(Model.downloads.desc(), Model.id)
        .limit(limit)
    )
    if search:
        query = query.where(Model.name.icontains(search, autoescape=True))
    if outcome:
        query = query.where(CheckpointStatus.outcome == outcome)
    if after:
        query = query.where(or_(Model.downloads < after[0], (Model.downloads == after[0]) & (Model.id > after[1])))
    return [(model, status) for model, status in session.execute(query).all()]


def checkpoint_of_model(session: Session, name: str, revision: str | None = None) -> Checkpoint | None:
    """The newest checkpoint of a model, or the one at `revision`, if it is known."""
    query = select(Checkpoint).join(Model, Model.id == Checkpoint.model_id).where(Model.name == name)
    query = query.where(Checkpoint.revision == revision) if revision else query
    return session.scalar(query.order_by(Checkpoint.id.desc()).limit(1))


def is_newest(checkpoint: type[Checkpoint]) -> ColumnElement[bool]:
    """Whether no newer checkpoint of its model is stored. `checkpoint`: the table or an alias of it."""
    newer = aliased(Checkpoint)
    return ~select(newer.id).where(newer.model_id == checkpoint.model_id, newer.id > checkpoint.id).exists()


def own_figures(session: Session, checkpoint_id: int) -> dict[str, Any]:
    """`downloads` and `newest` of a status of this checkpoint."""
    query = select(Model.downloads, is_newest(Checkpoint)).join(Checkpoint, Checkpoint.model_id == Model.id)
    downloads, newest = session.execute(query.where(Checkpoint.id == checkpoint_id)).one()
    return {"downloads": downloads, "newest": bool(newest)}


def note_downloads(session: Session, model_ids: Sequence[int]) -> None:
    """Give the statuses of these models the models' downloads, after a listing has changed them."""
    own = select(Model.downloads).join(Checkpoint, Checkpoint.model_id == Model.id)
    own = own.where(Checkpoint.id == CheckpointStatus.checkpoint_id)
    theirs = select(Checkpoint.id).where(Checkpoint.model_id.in_(model_ids))
    change = update(CheckpointStatus).where(CheckpointStatus.checkpoint_id.in_(theirs))
    session.execute(change.values(downloads=own.scalar_subquery()), execution_options=_UNSYNCED)


def note_newest(session: Session, model_ids: Sequence[int]) -> None:
    """Let no status of these models be of the newest checkpoint where a newer one has been stored."""
    older = select(Checkpoint.id).where(Checkpoint.model_id.in_(model_ids), ~is_newest(Checkpoint))
    change = update(CheckpointStatus).where(CheckpointStatus.newest, CheckpointStatus.checkpoint_id.in_(older))
    session.execute(change.values(newest=False), execution_options=_UNSYNCED)


_UNSYNCED = {"synchronize_session": False}


def newest_checkpoints() -> Subquery:
    """The newest checkpoint (`id`) of every model (`model_id`): for queries over all models. One index answers it."""
    query = select(Checkpoint.model_id, func.max(Checkpoint.id).label("id")).group_by(Checkpoint.model_id)
    return query.subquery("newest")


def _all_models(profile: str | BindParameter[str]) -> tuple[Subquery, FromClause]:
    """Every model, with its newest checkpoint's status on the profile where it has one."""
    newest = newest_checkpoints()
    on_profile = (CheckpointStatus.checkpoint_id == newest.c.id) & (CheckpointStatus.profile == profile)
    models = Model.__table__.outerjoin(newest, newest.c.model_id == Model.id)
    return newest, models.outerjoin(CheckpointStatus.__table__, on_profile)


def _figures() -> list[ColumnElement[Any]]:
    counts = [func.count(Model.id).filter(claim) for claim in CLAIMS.values()]
    return [*counts, *(_whole(func.sum(Model.downloads).filter(claim)) for claim in CLAIMS.values())]


def _whole(total: ColumnElement[Any]) -> ColumnElement[int]:
    """A sum of whole numbers as one: to PostgreSQL it is a decimal, which is slow to read."""
    return cast(func.coalesce(total, 0), BigInteger)


def _counted(values: Sequence[Any]) -> Counted:
    numbers = [int(value) for value in values]
    middle = len(CLAIMS)
    return Counted(dict(zip(CLAIMS, numbers[:middle], strict=True)), dict(zip(CLAIMS, numbers[middle:], strict=True)))


def sum_of(groups: Iterable[Counted]) -> Counted:
    """The figures over the models of all these groups, of which no two hold the same model."""
    parts = list(groups)
    models = {name: sum(part.models[name] for part in parts) for name in CLAIMS}
    return Counted(models, {name: sum(part.downloads[name] for part in parts) for name in CLAIMS})


def count_models(session: Session, profile: str) -> Counted:
    """The figures over every model."""
    return count_models_and_mark(session, profile)[0]


def count_models_and_mark(session: Session, profile: str) -> tuple[Counted, bool]:
    """The figures over every model, and whether the database is a demonstration: one statement for both."""
    row = _COUNT_MODELS.run(session, profile=profile).one()
    return _counted(row[:-1]), bool(row[-1])


def _count_models() -> Select[Any]:
    """The totals from the models, the claims from the statuses alone: no join of as many rows as there are models."""
    listed = select(func.count(Model.id), func.coalesce(func.sum(Model.downloads), 0)).subquery("listed")
    kinds = _kinds_of_statuses()
    claims = _claims(kinds.c).values()
    sums = (kinds.c.models, kinds.c.downloads)
    counts = [_whole(func.sum(column).filter(claim)) for column in sums for claim in claims]
    claimed = select(*counts).select_from(kinds).subquery("claimed")
    (rows, downloads), found = listed.c, list(claimed.c)
    figures = [rows, *found[: len(claims)], downloads, *found[len(claims) :]]
    return select(*figures, demo_mark()).select_from(listed.join(claimed, true()))


def _kinds_of_statuses() -> Subquery:
    """The newest checkpoints' statuses on a profile by all that a claim asks: a handful of rows, however many models.

    The index of the figures has them in this order, so that each row is only compared with the one before it.
    """
    asked = [getattr(CheckpointStatus, name) for name in ("outcome", "supported", "scripted", "weights", "depth")]
    query = select(*asked, func.count().label("models"), func.sum(CheckpointStatus.downloads).label("downloads"))
    newest = CheckpointStatus.newest, CheckpointStatus.profile == bindparam("profile")
    return query.where(*newest).group_by(*asked).subquery("kinds")


_COUNT_MODELS = Prepared(_count_models)


def count_by_family(session: Session, profile: str) -> dict[str, Counted]:
    """The figures by the family of each model's newest checkpoint."""
    return _named(_COUNT_BY_FAMILY.run(session, profile=profile))


def _count_by_family() -> Select[Any]:
    newest, models = _all_models(bindparam("profile"))
    family = case(
        (CheckpointStatus.checkpoint_id.is_(None), "not inspected"), else_=func.coalesce(Checkpoint.family, "unknown")
    )
    return _count_by(family, models.outerjoin(Checkpoint.__table__, Checkpoint.id == newest.c.id))


_COUNT_BY_FAMILY = Prepared(_count_by_family)


def count_by_release(session: Session, profile: str) -> dict[str, Counted]:
    """The figures by the adapter that each model's status rests on; `stock` for none."""
    _, models = _all_models(profile)
    source = models.outerjoin(Adapter.__table__, Adapter.id == CheckpointStatus.adapter_id)
    query = select(Adapter.name, Adapter.version, Adapter.origin, *_figures()).select_from(source)
    rows = session.execute(query.group_by(Adapter.name, Adapter.version, Adapter.origin))
    return {f"{row[0]} v{row[1]} ({row[2]})" if row[0] else "stock": _counted(row[3:]) for row in rows}


def count_by_profile(session: Session, profile: str) -> dict[str, Counted]:
    """The figures on every profile that has a verdict, and on the one that was asked about."""
    judged = set(session.scalars(select(CheckpointStatus.profile).distinct()))
    return {name: count_models(session, name) for name in sorted(judged | {profile})}


def count_by_op(session: Session, profile: str) -> dict[str, Counted]:
    """The figures by the operations that fail in the run each model's status rests on; a model counts under each."""
    return _named(_COUNT_BY_OP.run(session, profile=profile))


def _count_by_op() -> Select[Any]:
    _, models = _all_models(bindparam("profile"))
    failing = select(FailureRow.run_id, FailureRow.op).where(FailureRow.op != "").distinct().subquery("failing")
    return _count_by(failing.c.op, models.join(failing, failing.c.run_id == CheckpointStatus.run_id))


_COUNT_BY_OP = Prepared(_count_by_op)


def _count_by(name: ColumnElement[str], source: FromClause) -> Select[Any]:
    return select(name, *_figures()).select_from(source).group_by(name)


def _named(rows: Iterable[Sequence[Any]]) -> dict[str, Counted]:
    return {str(row[0]): _counted(row[1:]) for row in rows}
