"""What language models cost: in all, per candidate, per model that passes with it, and per download.

Everything comes from the ledger, one entry per call. A call whose cost is unknown makes every figure it is part of
unknown (None); what was reserved for it stays charged and is said beside it. Scripted models are in no figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from pipeline.drafting import repository
from pipeline.review.models import SCRIPTED, CandidateState


class Calls(NamedTuple):
    """Calls to models: how many, how many of unknown cost, and what is charged for all of them."""

    calls: int = 0
    unknown: int = 0
    known_usd: float = 0.0
    charged_usd: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """What they cost; None if the cost of one is unknown."""
        return None if self.unknown else self.known_usd

    def plus(self, other: Calls) -> Calls:
        """Both together."""
        return Calls(
            self.calls + other.calls,
            self.unknown + other.unknown,
            self.known_usd + other.known_usd,
            self.charged_usd + other.charged_usd,
        )


@dataclass(frozen=True)
class CandidateCost:
    """One candidate: its draft's calls, and the cost for each model and each download that then passes."""

    candidate: int
    family: str
    state: str
    models: tuple[str, ...]
    calls: int
    cost_usd: float | None
    charged_usd: float
    models_passing: int
    downloads: int
    per_model_usd: float | None
    per_download_usd: float | None


def cost_report(session: Session) -> dict[str, Any]:
    """The document of `spyre-factory drafting costs --json`."""
    rows = [
        (row.run_id, row.model, Calls(row.calls, row.unknown, row.known_usd, row.charged_usd))
        for row in repository.calls_by_run(session)
    ]
    real = [(run, name, calls) for run, name, calls in rows if name != SCRIPTED]
    whole = _sum([calls for _, _, calls in real])
    candidates = _candidates(session, real)
    ended = [c for c in candidates if c.state == CandidateState.RELEASED]
    passing, downloads = sum(c.models_passing for c in ended), sum(c.downloads for c in ended)
    return {
        "calls": whole.calls,
        "calls_of_unknown_cost": whole.unknown,
        "cost_usd": whole.cost_usd,
        "charged_usd": whole.charged_usd,
        "by_model": {name: _shown(_sum([c for _, n, c in real if n == name])) for name in _names(real)},
        "candidates": [asdict(c) for c in candidates],
        "models_passing": passing,
        "downloads": downloads,
        "per_model_usd": _share(whole.cost_usd, passing),
        "per_download_usd": _share(whole.cost_usd, downloads),
        "scripted_calls": sum(calls.calls for _, name, calls in rows if name == SCRIPTED),
    }


def _candidates(session: Session, rows: Sequence[tuple[int | None, str, Calls]]) -> list[CandidateCost]:
    found = [c for c in repository.llm_candidates(session) if not c.scripted]
    passing = repository.models_passing_with(session, [c.id for c in found])
    drafted_together: dict[int | None, int] = {}
    for candidate in found:
        drafted_together[candidate.draft_run_id] = drafted_together.get(candidate.draft_run_id, 0) + 1
    costs = []
    for c in found:
        own = [(name, calls) for run, name, calls in rows if run is not None and run == c.draft_run_id]
        calls, models = _sum([part for _, part in own]), passing.get(c.id, [])
        # A draft that made several candidates is split evenly: nobody can say which call was for which.
        share = _share(calls.cost_usd if own else None, drafted_together[c.draft_run_id])
        downloads = sum(count for _, count in models)
        costs.append(
            CandidateCost(
                candidate=c.id, family=c.family, state=c.state, models=tuple(sorted({name for name, _ in own})),
                calls=calls.calls, cost_usd=share, charged_usd=calls.charged_usd,
                models_passing=len(models), downloads=downloads,
                per_model_usd=_share(share, len(models)), per_download_usd=_share(share, downloads),
            )
        )  # fmt: skip
    return costs


def _sum(parts: Sequence[Calls]) -> Calls:
    total = Calls()
    for part in parts:
        total = total.plus(part)
    return total


def _names(rows: Sequence[tuple[int | None, str, Calls]]) -> list[str]:
    return sorted({name for _, name, _ in rows})


def _shown(calls: Calls) -> dict[str, Any]:
    counts = {"calls": calls.calls, "calls_of_unknown_cost": calls.unknown}
    return {**counts, "cost_usd": calls.cost_usd, "charged_usd": calls.charged_usd}


def _share(cost: float | None, parts: int) -> float | None:
    """The cost of one part; None where the cost is unknown or there is no part."""
    return None if cost is None or parts == 0 else cost / parts
