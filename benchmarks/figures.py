"""A measured figure with its target, and how a set of them is printed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One claim: `value` in `unit` must be at most `target`. `samples` are what the value is the median of."""

    name: str
    value: float
    unit: str
    target: float
    samples: tuple[float, ...] = ()

    @property
    def met(self) -> bool:
        """True if the value is within the target."""
        return self.value <= self.target


def median_figure(name: str, samples: Sequence[float], unit: str, target: float) -> Figure:
    """The figure that is the median of `samples`."""
    return Figure(name, round(statistics.median(samples), 4), unit, target, tuple(round(s, 4) for s in samples))


def render(figures: Sequence[Figure], as_json: bool) -> str:
    """A table of name, value, target and whether it is met; or JSON with the samples."""
    if as_json:
        return json.dumps([{**asdict(f), "met": f.met} for f in figures], indent=2)
    width = max(len(f.name) for f in figures)
    rows = [
        f"{f.name:<{width}}  {f.value:>8.3f} {f.unit:<3} target {f.target:>6.3f}  {'met' if f.met else 'NOT MET'}"
        for f in figures
    ]
    return "\n".join(rows)
