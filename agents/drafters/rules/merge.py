"""Merging the pattern uses of several causes into one set, in canonical order, by the pattern table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agents.drafters.rules.patterns import COVERED_BY, DTYPE_RANGE, INSTEAD, ORDER, PATTERNS, Merge
from agents.types import PatternUse


class MergeConflict(ValueError):
    """Two causes ask one pattern for parameters that no single patch can have."""


def merge_uses(uses: Iterable[PatternUse]) -> tuple[PatternUse, ...]:
    """One use per pattern instance, with what they need added, in canonical order.

    Raises MergeConflict if parameters cannot be reconciled and KeyError for a pattern that is not in the table.
    """
    merged: dict[tuple[str, str], PatternUse] = {}
    for use in _with_needs(covered(list(uses))):
        key = instance_key(use)
        merged[key] = _merge_pair(merged[key], use) if key in merged else use
    return tuple(sorted(merged.values(), key=lambda use: (ORDER[use.pattern], instance_key(use))))


def covered(uses: Sequence[PatternUse]) -> list[PatternUse]:
    """The uses, each in the place it had; one that another covers is that other."""
    present = {use.pattern: use for use in uses}
    return [_cover_of(use, present) for use in uses]


def _cover_of(use: PatternUse, present: dict[str, PatternUse]) -> PatternUse:
    return next((present[pattern] for pattern in COVERED_BY.get(use.pattern, ()) if pattern in present), use)


def instance_key(use: PatternUse) -> tuple[str, str]:
    """What tells one patch of a set from another: the pattern and, where it has one, its instance parameter."""
    per = PATTERNS[use.pattern].per
    return use.pattern, str(use.parameters.get(per, "")) if per else ""


def _with_needs(uses: Iterable[PatternUse]) -> list[PatternUse]:
    given = list(uses)
    present = {use.pattern for use in given}
    needed = [
        need
        for use in given
        for need in PATTERNS[use.pattern].needs
        if not ({need.pattern} | INSTEAD.get(need.pattern, frozenset())) & present
    ]
    return given + needed


def _merge_pair(first: PatternUse, second: PatternUse) -> PatternUse:
    rules = PATTERNS[first.pattern].parameters
    parameters = dict(first.parameters)
    for name, value in second.parameters.items():
        if name in parameters and parameters[name] != value:
            parameters[name] = _merge_value(first.pattern, name, rules.get(name, Merge.EQUAL), parameters[name], value)
        parameters.setdefault(name, value)
    return PatternUse(first.pattern, parameters)


def _merge_value(pattern: str, name: str, rule: Merge, first: Any, second: Any) -> Any:
    if rule is Merge.EQUAL:
        raise MergeConflict(f"{pattern}: one cause needs {name}={first!r}, another {name}={second!r}")
    return MERGERS[rule](first, second)


def _widest(first: str, second: str) -> str:
    return max(first, second, key=DTYPE_RANGE.index)


MERGERS: dict[Merge, Callable[[Any, Any], Any]] = {
    Merge.LARGEST: max,
    Merge.COMMON_MULTIPLE: math.lcm,
    Merge.WIDEST_RANGE: _widest,
}
