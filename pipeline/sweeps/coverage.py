"""Coverage: how many checkpoints are supported and passing, by count and by downloads, real and synthetic apart.

Every listed model is in `total`, dropped ones too. What a scripted candidate makes pass counts in no figure. The
database does the counting: no model's row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.facts import is_demo
from pipeline.sweeps import repository
from pipeline.sweeps.schemas import GroupBy

FIGURES = tuple(repository.CLAIMS)
COUNTERS: Mapping[GroupBy, Callable[[Session, str], dict[str, repository.Counted]]] = {
    "family": repository.count_by_family,
    "op": repository.count_by_op,
    "release": repository.count_by_release,
    "profile": repository.count_by_profile,
}

PARTITIONS = frozenset[GroupBy | None]({"family", "release"})
"""Groups that hold every model once: the figures over all models are their sums, and are not counted again."""


def coverage(session: Session, profile: str, by: GroupBy | None = None) -> dict[str, Any]:
    """The keys of the command `coverage`; `groups` is empty unless `by` is given. `demo` databases say so."""
    found = COUNTERS[by](session, profile) if by else {}
    if by in PARTITIONS:
        counted, demo = repository.sum_of(found.values()), is_demo(session)
    else:
        counted, demo = repository.count_models_and_mark(session, profile)
    return {"profile": profile, "demo": demo, **_figures(counted), "groups": _groups(found)}


def _figures(counted: repository.Counted) -> dict[str, Any]:
    return {**counted.models, "by_downloads": counted.downloads}


def _groups(found: Mapping[str, repository.Counted]) -> list[dict[str, Any]]:
    groups = [{"name": name, **_figures(counted)} for name, counted in found.items()]
    return sorted(groups, key=lambda group: (-group["by_downloads"]["total"], group["name"]))
