"""Every query on models, checkpoints, snapshots, sweeps and current status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ScalarSelect, Select, func, or_, select
from sqlalchemy.orm import Session, aliased

from pipeline.database.insert import insert_or_return
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
from pipeline.work.models import ACTIVE_STATES, FailureRow, Run, RunState


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
    return list(session.scalars(query.order_by(CatalogueEntry.position).limit(top)))


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


def sweep_runs(session: Session, sweep_id: int) -> list[tuple[Run, bool]]:
    """The runs of a sweep with their `fresh` mark, in the order they were made."""
    query = select(Run, SweepRun.fresh).join(SweepRun, SweepRun.run_id == Run.id)
    rows = session.execute(query.where(SweepRun.sweep_id == sweep_id).order_by(Run.id)).all()
    return [(run, fresh) for run, fresh in rows]


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


def failing_ops(session: Session, run_id: int) -> list[str]:
    """The operations that failed in a run, each once."""
    query = select(FailureRow.op).where(FailureRow.run_id == run_id, FailureRow.op != "").distinct()
    return list(session.scalars(query.order_by(FailureRow.op)))
