"""Figures as data for server-side SVG: a chart never says anything that the table or text beside it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from api.standing import Point, Release

WIDTH, HEIGHT = 1_000, 200
STEPS = (1, 2, 2.5, 5, 10)
"""Ends of axes are these times a power of ten."""


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


class Mark(NamedTuple):
    """A day on which adapters were released, with its place and their names."""

    x: float
    day: str
    names: str


class Timeline(NamedTuple):
    """Coverage over time: two stacked areas as paths in a box of WIDTH by HEIGHT, and what the axes say."""

    real: str
    synthetic: str
    marks: list[Mark]
    top: int
    first: str
    last: str


def timeline(points: Sequence[Point], releases: Sequence[Release], today: str) -> Timeline | None:
    """The chart; None without a point. A count holds until the next day on which it changed."""
    if not points:
        return None
    first, last = points[0].day, max(today, points[-1].day)
    held = [*points, points[-1]._replace(day=last)]
    top = axis_end(max(p.real + p.synthetic for p in points))
    places = [_share(first, last, point.day) for point in held]
    real = _area(places, [p.real / top for p in held])
    both = _area(places, [(p.real + p.synthetic) / top for p in held])
    return Timeline(real, both, _marks(releases, first, last), top, first, last)


def axis_end(value: float) -> int:
    """The smallest round number that is not below `value`, at least 4."""
    size = 1
    while True:
        for step in STEPS:
            if step * size >= max(value, 4) and step * size == int(step * size):
                return int(step * size)
        size *= 10


def _share(first: str, last: str, day: str) -> float:
    whole = (date.fromisoformat(last) - date.fromisoformat(first)).days
    return (date.fromisoformat(day) - date.fromisoformat(first)).days / whole if whole else 1.0


def _area(places: Sequence[float], heights: Sequence[float]) -> str:
    """A stepped area above the axis."""
    y = [round(HEIGHT * (1 - height), 1) for height in heights]
    path = [f"M{WIDTH * places[0]:.1f} {HEIGHT}V{y[0]}"]
    path += [f"H{WIDTH * place:.1f}V{height}" for place, height in zip(places[1:], y[1:], strict=True)]
    if places[0] == 1.0:  # one day only: it fills the box
        return f"M0 {HEIGHT}V{y[-1]}H{WIDTH}V{HEIGHT}Z"
    return f"{' '.join(path)}V{HEIGHT}Z"


def _marks(releases: Sequence[Release], first: str, last: str) -> list[Mark]:
    days: dict[str, list[str]] = {}
    for found in releases:
        if first <= found.day <= last:
            days.setdefault(found.day, []).append(f"{found.name} v{found.version}")
    return [Mark(round(WIDTH * _share(first, last, day), 1), day, ", ".join(names)) for day, names in days.items()]
