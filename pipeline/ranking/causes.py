"""Causes that keep models from passing, and their ranking by what mending each would change.

A cause is (kind, op, condition): what one patch pattern or one device release mends, whatever the model. Leaf module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agents.types import FailureKind


class Cause(NamedTuple):
    """Why models do not pass. `condition` narrows the kind: dtypes, a constant, a layout; "" where nothing does."""

    kind: str
    op: str
    condition: str


@dataclass(frozen=True)
class Blocked:
    """One model that does not pass, with every cause that is known of it. It passes once all of them are mended."""

    model: str
    downloads: int
    causes: frozenset[Cause]


@dataclass(frozen=True)
class RankedCause:
    """What one cause blocks: `models`, `downloads` have it, `alone_*` have nothing else and would then pass."""

    cause: Cause
    models: int
    downloads: int
    alone_models: int
    alone_downloads: int


def cause_of(failure: Mapping[str, Any]) -> Cause:
    """The cause a failure (`agents.types.Failure` as plain data) stands for."""
    kind = str(failure["kind"])
    condition = _CONDITIONS.get(kind, lambda _failure: "")(failure)
    return Cause(kind, str(failure["op"]), condition)


def _dtypes(failure: Mapping[str, Any]) -> str:
    return ", ".join(sorted(set(failure.get("dtypes") or ())))


def _experiment(failure: Mapping[str, Any]) -> str:
    """What the diagnosis found to mend it: "layout", "length", "border" or "value"."""
    scalars = failure.get("scalars") or ()
    return str(scalars[0]) if scalars else ""


def _constants(failure: Mapping[str, Any]) -> str:
    numbers = [s for s in failure.get("scalars") or () if isinstance(s, int | float) and not isinstance(s, bool)]
    return ", ".join(f"{number:g}" for number in numbers)


def _text(failure: Mapping[str, Any]) -> str:
    return str(failure.get("message") or "").split(":")[0][:80]


_CONDITIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    FailureKind.UNSUPPORTED_DTYPE: _dtypes,
    FailureKind.UNSUPPORTED_OP: _constants,
    FailureKind.WRONG_VALUES: _experiment,
    FailureKind.GRAPH_BREAK: _text,
}


def rank(blocked: Iterable[Blocked]) -> list[RankedCause]:
    """Every cause, those first that alone keep most downloads from passing, then those that most downloads have."""
    having: dict[Cause, list[Blocked]] = defaultdict(list)
    for model in blocked:
        for cause in model.causes:
            having[cause].append(model)
    ranked = [_ranked(cause, models) for cause, models in having.items()]
    return sorted(ranked, key=lambda r: (-r.alone_downloads, -r.downloads, -r.models, r.cause))


def _ranked(cause: Cause, models: list[Blocked]) -> RankedCause:
    alone = [m for m in models if len(m.causes) == 1]
    return RankedCause(
        cause, len(models), sum(m.downloads for m in models), len(alone), sum(m.downloads for m in alone)
    )
