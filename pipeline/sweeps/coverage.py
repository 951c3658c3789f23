"""Coverage: how many checkpoints are supported and passing, by count and by downloads, real and synthetic apart.

Every listed model is in `total`, dropped ones too. What a scripted candidate makes pass counts in no figure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy.orm import Session

from pipeline.database.facts import is_demo
from pipeline.sweeps import repository
from pipeline.sweeps.models import CheckpointStatus, Model
from pipeline.sweeps.schemas import GroupBy
from pipeline.work.models import Outcome

Row = tuple[Model, CheckpointStatus | None]
FIGURES = ("total", "supported", "passing_real", "passing_synthetic", "truncated")


def coverage(session: Session, profile: str, by: GroupBy | None = None) -> dict[str, Any]:
    """The keys of the command `coverage`; `groups` is empty unless `by` is given. `demo` databases say so."""
    rows = list(repository.page_of_models(session, profile, "", None, None, None))
    return {
        "profile": profile,
        "demo": is_demo(session),
        **figures(rows, lambda _model: 1),
        "by_downloads": figures(rows, lambda model: model.downloads),
        "groups": _groups(session, rows, by) if by else [],
    }


def figures(rows: Iterable[Row], weight: Callable[[Model], int]) -> dict[str, int]:
    """The five figures over rows, each model counted with `weight`. `truncated` passed at less than full depth."""
    sums = dict.fromkeys(FIGURES, 0)
    for model, status in rows:
        for name in ("total", *_claims(status)):
            sums[name] += weight(model)
    return sums


def _claims(status: CheckpointStatus | None) -> list[str]:
    if status is None or status.scripted:
        return []
    passing = status.outcome == Outcome.PASSED
    claims = {
        "supported": status.supported,
        "passing_real": passing and status.weights == "real",
        "passing_synthetic": passing and status.weights == "synthetic",
        "truncated": passing and status.depth is not None,
    }
    return [name for name, holds in claims.items() if holds]


def _groups(session: Session, rows: Sequence[Row], by: GroupBy) -> list[dict[str, Any]]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for name in _NAMES[by](session, row[1]):
            grouped[name].append(row)
    groups = [
        {"name": name, **figures(members, lambda _m: 1), "by_downloads": figures(members, lambda m: m.downloads)}
        for name, members in grouped.items()
    ]
    return sorted(groups, key=lambda group: (-group["by_downloads"]["total"], group["name"]))


def _family(_session: Session, status: CheckpointStatus | None) -> list[str]:
    return [(status.checkpoint.family or "unknown") if status else "not inspected"]


def _ops(session: Session, status: CheckpointStatus | None) -> list[str]:
    return repository.failing_ops(session, status.run_id) if status else []


def _release(_session: Session, status: CheckpointStatus | None) -> list[str]:
    adapter = status.adapter if status else None
    return [f"{adapter.name} v{adapter.version} ({adapter.origin})" if adapter else "stock"]


_NAMES: dict[GroupBy, Callable[[Session, CheckpointStatus | None], list[str]]] = {
    "family": _family,
    "op": _ops,
    "release": _release,
}
