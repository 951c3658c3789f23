"""A second look at mutants that were accepted: are they the same function, or were they missed?

A mistake need not change anything: a sign before zero, an axis of size one, a bias that softmax does not see. What was
accepted is compared with the document it was made from, on other seeds and other weights. Equal bits everywhere prove
as much as draws can; differences of rounding size are named apart; anything else is a false accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adapters.document import build
from pipeline.verification.equivalence.blocks import Subject, compare_documents
from pipeline.verification.equivalence.limits import limits
from pipeline.verification.equivalence.points import edges, points
from pipeline.verification.mutants.draw import Mutant
from pipeline.verification.mutants.sections import Document


class Judgement(StrEnum):
    """What an accepted mutant is."""

    SAME_BITS = "same bits on all draws"
    ROUNDING = "same up to rounding on all draws"
    MISSED = "missed: it computes something else"


class Survivor(NamedTuple):
    """An accepted mutant with the judgement of the second look and the largest difference found there."""

    mutant: Mutant
    judgement: Judgement
    error: float

    def __str__(self) -> str:
        return f"{self.judgement} ({self.error:.2g}): {self.mutant.kind}, {self.mutant.place}"


class Score(NamedTuple):
    """Mutants tried and refused, and those accepted with their judgement."""

    tried: int
    refused: int
    survivors: tuple[Survivor, ...]

    @property
    def missed(self) -> int:
        """Accepted although they compute something else."""
        return sum(s.judgement is Judgement.MISSED for s in self.survivors)

    @property
    def false_accepts(self) -> float:
        """Missed among those that compute something else. Raises ZeroDivisionError if there are none."""
        return self.missed / (self.refused + self.missed)

    def plus(self, other: Score) -> Score:
        """Both together."""
        return Score(self.tried + other.tried, self.refused + other.refused, self.survivors + other.survivors)


def look_again_at_model(original: Document, mutant: Mutant, subjects: Sequence[Subject]) -> Survivor:
    """An accepted mutant of a model's document against the document it was made from."""
    found = [compare_documents(original, mutant.document, subject) for subject in subjects]
    error = max(f.error for f in found)
    if any(f.fault is not None for f in found):
        return Survivor(mutant, Judgement.MISSED, error)
    return Survivor(mutant, Judgement.SAME_BITS if error == 0 else Judgement.ROUNDING, error)


def look_again_at_module(original: dict[str, Any], mutant: Mutant, seeds: Sequence[int]) -> Survivor:
    """An accepted mutant of a module's document against the document it was made from, in fp64."""
    one, other = build(original).double(), build(mutant.document).double()
    with torch.no_grad():
        pairs = [(one(x), other(x)) for x in _inputs(seeds)]
    error = max(float(_scaled(a, b).max()) for a, b in pairs)
    if all(torch.equal(a.nan_to_num(), b.nan_to_num()) and torch.equal(a.isnan(), b.isnan()) for a, b in pairs):
        return Survivor(mutant, Judgement.SAME_BITS, error)
    small = error <= limits().relative
    return Survivor(mutant, Judgement.ROUNDING if small else Judgement.MISSED, error)


def _inputs(seeds: Sequence[int]) -> Iterator[Tensor]:
    yield from (points(seed) for seed in seeds)
    yield edges()


def _scaled(a: Tensor, b: Tensor) -> Tensor:
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, ((a - b).abs() / a.abs().clamp(min=1.0)).nan_to_num(nan=torch.inf))
