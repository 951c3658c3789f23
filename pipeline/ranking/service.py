"""The ranking over the stored models of one profile: what the command `ops` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import case, distinct, false, func, select
from sqlalchemy.orm import Session

from pipeline.database.facts import is_demo
from pipeline.ranking.causes import Blocked, Cause, RankedCause, cause_of, rank
from pipeline.ranking.cheapest import SOLVER, CheapestSet, cheapest_sets
from pipeline.sweeps import repository
from pipeline.sweeps.models import Checkpoint, CheckpointStatus, Model
from pipeline.work.models import DiagnosisRow, Outcome, Run, RunState, StageName


def ranking(session: Session, profile: str) -> dict[str, Any]:
    """Causes ranked and the cheapest sets. `without_causes` counts models that do not pass for no known cause.

    What a scripted candidate makes pass does not pass here either: it counts in no figure.
    """
    open_rows = _not_passing(session, profile)
    causes = stored_causes(session, profile)
    blocked = [b for b in (_blocked(row, causes) for row in open_rows) if b.causes]
    downloads = sum(row.downloads for row in open_rows)
    return {
        "profile": profile,
        "demo": is_demo(session),
        "not_passing": len(open_rows),
        "not_passing_downloads": downloads,
        "without_causes": len(open_rows) - len(blocked),
        "ops": [_ranked_item(r) for r in rank(blocked)],
        "solver": SOLVER,
        "cheapest": [_set_item(s) for s in cheapest_sets(blocked, downloads)],
        "by_family": failing_by_family(session, profile),
    }


class _Open(NamedTuple):
    """A model that does not pass: its newest checkpoint, and the kind that its verdict names if it failed."""

    model: str
    downloads: int
    checkpoint: int | None
    kind: str | None


def _not_passing(session: Session, profile: str) -> list[_Open]:
    newest = repository.newest_checkpoints()
    on_profile = (CheckpointStatus.checkpoint_id == newest.c.id) & (CheckpointStatus.profile == profile)
    kind = case((CheckpointStatus.outcome == Outcome.FAILED, CheckpointStatus.kind), else_=None)
    query = select(Model.name, Model.downloads, CheckpointStatus.checkpoint_id, kind).select_from(Model)
    query = query.outerjoin(newest, newest.c.model_id == Model.id).outerjoin(CheckpointStatus, on_profile)
    passes = func.coalesce(CheckpointStatus.outcome, "") == Outcome.PASSED
    query = query.where(~passes | func.coalesce(CheckpointStatus.scripted, false()))
    return [_Open(*row) for row in session.execute(query.order_by(Model.downloads.desc(), Model.id))]


def stored_causes(session: Session, profile: str) -> dict[int, frozenset[Cause]]:
    """Causes by checkpoint id, from its newest finished diagnosis on the profile; what needs no patch is no cause."""
    query = select(DiagnosisRow.checkpoint_id, DiagnosisRow.data["failure"])
    query = query.where(DiagnosisRow.run_id.in_(_newest(profile)), DiagnosisRow.no_patch.is_(None))
    found: dict[int, set[Cause]] = {}
    for checkpoint, failure in session.execute(query):
        found.setdefault(checkpoint, set()).add(cause_of(failure))
    return {checkpoint: frozenset(causes) for checkpoint, causes in found.items()}


def _newest(profile: str) -> Any:
    """The newest finished diagnosis of each checkpoint on the profile."""
    return (
        select(func.max(Run.id))
        .where(Run.stage == StageName.DIAGNOSE, Run.state == RunState.DONE, Run.profile == profile)
        .group_by(Run.checkpoint_id)
    )


def failing_by_family(session: Session, profile: str) -> list[dict[str, Any]]:
    """The rows of the heat map: operation, family, and how many of its checkpoints have a cause there."""
    models = func.count(distinct(DiagnosisRow.checkpoint_id))
    query = (
        select(DiagnosisRow.op, Checkpoint.family, models)
        .join(Checkpoint, Checkpoint.id == DiagnosisRow.checkpoint_id)
        .where(DiagnosisRow.run_id.in_(_newest(profile)), DiagnosisRow.no_patch.is_(None))
        .group_by(DiagnosisRow.op, Checkpoint.family)
        .order_by(DiagnosisRow.op, Checkpoint.family)
    )
    return [{"op": op or "whole model", "family": f or "unknown", "models": n} for op, f, n in session.execute(query)]


def _blocked(row: _Open, causes: dict[int, frozenset[Cause]]) -> Blocked:
    """The model's diagnosed causes; without a diagnosis the kind its verdict names (gated, remote code, crashed)."""
    found = causes.get(row.checkpoint, frozenset()) if row.checkpoint is not None else frozenset()
    return Blocked(row.model, row.downloads, found or frozenset({Cause(row.kind, "", "")} if row.kind else ()))


def _ranked_item(ranked: RankedCause) -> dict[str, Any]:
    values = asdict(ranked)
    del values["cause"]
    return {**ranked.cause._asdict(), **values}


def _set_item(found: CheapestSet) -> dict[str, Any]:
    kinds = Counter(cause.kind for cause in found.causes)
    return {**asdict(found), "causes": [c._asdict() for c in found.causes], "kinds": dict(kinds)}
