"""The ranking over the stored models of one profile: what the command `ops` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.database.facts import is_demo
from pipeline.ranking.causes import Blocked, Cause, RankedCause, cause_of, rank
from pipeline.ranking.cheapest import SOLVER, CheapestSet, cheapest_sets
from pipeline.sweeps import repository
from pipeline.sweeps.models import CheckpointStatus, Model
from pipeline.work.models import DiagnosisRow, Outcome, Run, RunState, StageName


def ranking(session: Session, profile: str) -> dict[str, Any]:
    """Causes ranked and the cheapest sets. `without_causes` counts models that do not pass for no known cause.

    What a scripted candidate makes pass does not pass here either: it counts in no figure.
    """
    rows = repository.page_of_models(session, profile, "", None, None, None)
    open_rows = [(m, s) for m, s in rows if s is None or s.scripted or s.outcome != Outcome.PASSED]
    causes = stored_causes(session, profile)
    blocked = [b for b in (_blocked(m, s, causes) for m, s in open_rows) if b.causes]
    downloads = sum(m.downloads for m, _ in open_rows)
    return {
        "profile": profile,
        "demo": is_demo(session),
        "not_passing": len(open_rows),
        "not_passing_downloads": downloads,
        "without_causes": len(open_rows) - len(blocked),
        "ops": [_ranked_item(r) for r in rank(blocked)],
        "solver": SOLVER,
        "cheapest": [_set_item(s) for s in cheapest_sets(blocked, downloads)],
    }


def stored_causes(session: Session, profile: str) -> dict[int, frozenset[Cause]]:
    """Causes by checkpoint id, from its newest finished diagnosis on the profile; what needs no patch is no cause."""
    newest = (
        select(func.max(Run.id))
        .where(Run.stage == StageName.DIAGNOSE, Run.state == RunState.DONE, Run.profile == profile)
        .group_by(Run.checkpoint_id)
    )
    query = select(DiagnosisRow).where(DiagnosisRow.run_id.in_(newest), DiagnosisRow.no_patch.is_(None))
    found: dict[int, set[Cause]] = {}
    for row in session.scalars(query):
        found.setdefault(row.checkpoint_id, set()).add(cause_of(row.data["failure"]))
    return {checkpoint: frozenset(causes) for checkpoint, causes in found.items()}


def _blocked(model: Model, status: CheckpointStatus | None, causes: dict[int, frozenset[Cause]]) -> Blocked:
    """The model's diagnosed causes; without a diagnosis the kind its verdict names (gated, remote code, crashed)."""
    found = causes.get(status.checkpoint_id, frozenset()) if status else frozenset()
    if not found and status is not None and status.outcome == Outcome.FAILED and status.kind:
        found = frozenset({Cause(status.kind, "", "")})
    return Blocked(model.name, model.downloads, found)


def _ranked_item(ranked: RankedCause) -> dict[str, Any]:
    values = asdict(ranked)
    del values["cause"]
    return {**ranked.cause._asdict(), **values}


def _set_item(found: CheapestSet) -> dict[str, Any]:
    kinds = Counter(cause.kind for cause in found.causes)
    return {**asdict(found), "causes": [c._asdict() for c in found.causes], "kinds": dict(kinds)}
