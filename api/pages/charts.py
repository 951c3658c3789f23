"""Figures as data for server-side SVG: a chart never says anything that the table or text beside it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

WIDTH = 1_000


class Bar(NamedTuple):
    """One part of a stacked bar, in thousandths of its width."""

    name: str
    style: str
    start: float
    width: float
    value: int


def coverage_bar(figures: Mapping[str, int]) -> list[Bar]:
    """Passing with real weights, passing with synthetic weights, the rest: as parts of the total."""
    real, synthetic, total = figures["passing_real"], figures["passing_synthetic"], figures["total"]
    parts = (
        ("pass with their own weights", "bar-real", real),
        ("pass with synthetic weights", "bar-synthetic", synthetic),
        ("do not pass yet", "bar-rest", total - real - synthetic),
    )
    bars, start = [], 0.0
    for name, style, value in parts:
        width = WIDTH * value / total if total else 0.0
        bars.append(Bar(name, style, round(start, 2), round(width, 2), value))
        start += width
    return bars
