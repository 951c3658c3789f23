"""Do two measurements of the same thing agree? The verdict documents to the letter, the figures within the policy.

Imports no torch. Figures are compared where both runs have them; a figure that only one run has is a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.verification.measurements import CaseMeasurement, Measurements

CASE_FIGURES = {
    "lowest_token_cosine": "lowest_token_cosine",
    "company_token_cosine": "company_token_cosine",
    "pooled_cosine": "pooled_cosine",
    "centred_pooled_cosine": "centred_pooled_cosine",
    "ideal_token_cosine": "ideal_token_cosine",
    "norm_low": "norm_ratio",
    "norm_high": "norm_ratio",
    "error_ratio": "error_ratio",
}
"""Figure of a case to the name of its tolerance in the policy."""


@dataclass(frozen=True)
class Moved:
    """One figure of two runs: how far apart, and how far the policy lets it be. `inf` if only one run has it."""

    case: str
    figure: str
    distance: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """True within the tolerance."""
        return self.distance <= self.tolerance

    def __str__(self) -> str:
        return f"{self.figure} of {self.case} moved by {self.distance:.2g} (tolerance {self.tolerance:g})"


def compare_measurements(a: Measurements, b: Measurements, tolerance: Mapping[str, float]) -> list[Moved]:
    """Every figure of two runs, case by case by name, the controls' and the rank correlation among them."""
    theirs = {case.name: case for case in b.cases}
    moved = [m for case in a.cases for m in _case(case, theirs.pop(case.name, None), tolerance)]
    moved += [Moved(name, "case", math.inf, 0.0) for name in theirs]
    return [*moved, Moved("set", "spearman", distance(a.spearman, b.spearman), tolerance["spearman"])]


def _case(a: CaseMeasurement, b: CaseMeasurement | None, tolerance: Mapping[str, float]) -> Iterator[Moved]:
    if b is None:
        yield Moved(a.name, "case", math.inf, 0.0)
        return
    for figure, name in CASE_FIGURES.items():
        yield Moved(a.name, figure, distance(getattr(a, figure), getattr(b, figure)), tolerance[name])


def distance(a: float | None, b: float | None) -> float:
    """How far two figures are apart: 0 if neither was measured or both are NaN or the same infinity."""
    if a is None or b is None:
        return 0.0 if a is b else math.inf
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) if math.isfinite(a) and math.isfinite(b) else math.inf


def document_differences(a: Any, b: Any, at: str = "") -> Iterator[str]:
    """Where two plain documents differ, as paths with both values."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            yield from document_differences(a.get(key), b.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from document_differences(x, y, f"{at}[{index}]")
    elif a != b:
        yield f"{at}: {a!r} was stored, {b!r} now"
