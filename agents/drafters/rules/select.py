"""Choosing patterns: each cause is cured by one of the patterns its diagnosis names, with as few patches as possible.

Deterministic: the same causes give the same sets in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from agents.drafters.rules.merge import MergeConflict, covered, instance_key, merge_uses
from agents.types import Diagnosis, PatternUse

MAX_SELECTIONS = 256
"""Combinations looked at; causes with the same options count once, so real models need a handful."""


@dataclass(frozen=True)
class Cause:
    """Diagnoses with the same options: the usable patterns, in the diagnosis's order of preference."""

    options: tuple[PatternUse, ...]
    diagnoses: tuple[Diagnosis, ...]


@dataclass(frozen=True)
class Selected:
    """One use of a set and the diagnoses it is there for; none if another pattern needs it."""

    use: PatternUse
    diagnoses: tuple[Diagnosis, ...]


Selection = tuple[Selected, ...]
Usable = tuple[Diagnosis, tuple[PatternUse, ...]]
"""A cause with the patterns that can cure it."""


def group(options: Sequence[Usable]) -> list[Cause]:
    """Causes with equal options taken together, in order of first appearance."""
    groups: dict[str, list[Usable]] = {}
    for pair in options:
        groups.setdefault(repr(pair[1]), []).append(pair)
    return [Cause(pairs[0][1], tuple(d for d, _ in pairs)) for pairs in groups.values()]


def selections(causes: Sequence[Cause]) -> Iterator[Selection]:
    """Every way to cure all causes, smallest set first; none if parameters conflict, one empty set without causes."""
    choices = islice(product(*(cause.options for cause in causes)), MAX_SELECTIONS)
    found = [s for choice in choices if (s := _selection(choice, causes)) is not None]
    yield from sorted(found, key=len)


def grown_selections(causes: Sequence[Cause], added: Sequence[Cause]) -> Iterator[tuple[Selection, Selection]]:
    """Every way to cure `causes`, each with every way to cure the `added` ones beside it (one, if there are none)."""
    for base in selections(causes):
        fixed = [Cause((chosen.use,), chosen.diagnoses) for chosen in base]
        for whole in selections([*fixed, *added]):
            yield base, whole


def conflict_of(causes: Sequence[Cause]) -> str | None:
    """Why the first choices cannot be merged into one set; None if they can."""
    try:
        merge_uses([cause.options[0] for cause in causes])
    except MergeConflict as conflict:
        return str(conflict)
    return None


def _selection(choice: Sequence[PatternUse], causes: Sequence[Cause]) -> Selection | None:
    try:
        uses = merge_uses(choice)
    except MergeConflict:
        return None
    chosen = [(instance_key(use), cause.diagnoses) for use, cause in zip(covered(choice), causes, strict=True)]
    return tuple(Selected(use, _diagnoses_for(use, chosen)) for use in uses)


def _diagnoses_for(
    use: PatternUse, chosen: Sequence[tuple[tuple[str, str], tuple[Diagnosis, ...]]]
) -> tuple[Diagnosis, ...]:
    return tuple(d for key, diagnoses in chosen if key == instance_key(use) for d in diagnoses)
