"""Pictures of a diagnosis as SVG text: the error curve per layer, and a map of operations over families.

Each has a title and a description for readers that do not see, and uses the colour of the text around it. The numbers
belong in a table beside it: a picture never stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT, MARGIN = 640, 280, 56
CELL, LABEL = 22, 260
DASHES = ("none", "6 3", "2 3", "8 3 2 3")
"""Kinds of input are told apart by dash, not by colour alone."""
FLOOR = 1e-6
"""Smaller errors, and exact zeros, are drawn here: the axis is logarithmic."""


def error_curve(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The relative error at each block's end by kind of input: full lines the device, faint ones an ideal 16-bit run.

    `curves` are those of a diagnosis: per kind, points with `block`, `total` and `total_ideal` (None: not finite, where
    the line is broken).
    """
    drawn = {k: v for k, v in curves.items() if v}
    values = [_value(p[key]) for points in drawn.values() for p in points for key in ("total", "total_ideal")]
    known = [v for v in values if v is not None] or [FLOOR, 1.0]
    low, high = math.floor(math.log10(min(known))), max(math.ceil(math.log10(max(known))), -2)
    high = high if high > low else low + 1
    longest = max((len(v) for v in drawn.values()), default=1)
    parts = [line(f"M{MARGIN} {_y(e, low, high):.1f}H{WIDTH - 8}", "0.15") for e in range(low, high + 1)]
    parts += [text(4, _y(e, low, high) + 4, f"1e{e}") for e in range(low, high + 1)]
    parts.append(text(MARGIN, HEIGHT - 8, f"end of block 1 to {longest}; relative error, logarithmic"))
    for number, (kind, points) in enumerate(drawn.items()):
        for key, opacity in (("total_ideal", "0.4"), ("total", "1")):
            path = _path([_value(p[key]) for p in points], longest, low, high)
            parts.append(line(path, opacity, DASHES[number % len(DASHES)], f"{kind}, {_SAID[key]}"))
    return document(WIDTH, HEIGHT, "Error per layer", "; ".join(_summary(k, v) for k, v in drawn.items()), parts)


_SAID = {"total": "on the device", "total_ideal": "ideal 16-bit run"}


def curve_rows(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The table beside the curve: one row per kind of input and block."""
    return [{"input": kind, **point} for kind, points in curves.items() for point in points]


def heat_map(counts: Mapping[tuple[str, str], int]) -> str:
    """Operations (rows) over families (columns), darker where more models fail; `counts`: (op, family) → models."""
    rows, columns = sorted({op for op, _ in counts}), sorted({family for _, family in counts})
    most = max(counts.values(), default=1)
    top = 120
    parts = [text(4, top + n * CELL + 15, op) for n, op in enumerate(rows)]
    for n, family in enumerate(columns):
        x = LABEL + n * CELL + 15
        parts.append(f'<text transform="translate({x} {top - 6}) rotate(-60)">{escape(family)}</text>')
    for (op, family), count in sorted(counts.items()):
        x, y = LABEL + columns.index(family) * CELL, top + rows.index(op) * CELL
        said = escape(f"{op}, {family}: {count} models")
        parts.append(
            f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill="currentColor" '
            f'fill-opacity="{0.15 + 0.85 * count / most:.2f}"><title>{said}</title></rect>'
        )
    said = f"{len(rows)} operations over {len(columns)} families, at most {most} models in a cell"
    width = LABEL + len(columns) * CELL + 80
    return document(width, top + len(rows) * CELL + 8, "Failing operations by family", said, parts)


# --- drawing
def _value(error: float | None) -> float | None:
    return None if error is None or not math.isfinite(error) else max(error, FLOOR)


def _y(exponent: float, low: int, high: int) -> float:
    return MARGIN / 2 + (high - exponent) / (high - low) * (HEIGHT - 1.5 * MARGIN)


def _path(values: Sequence[float | None], longest: int, low: int, high: int) -> str:
    """A line through the values, broken where one is not finite."""
    step, pen, parts = (WIDTH - 8 - MARGIN) / max(longest - 1, 1), "M", []
    for n, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{MARGIN + n * step:.1f} {_y(math.log10(value), low, high):.1f}")
        pen = "L"
    return "".join(parts)


def line(path: str, opacity: str, dash: str = "none", title: str = "") -> str:
    """A stroke in the colour of the text."""
    shape = f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="{opacity}" stroke-dasharray="{dash}"'
    return f"{shape}><title>{escape(title)}</title></path>" if title else f"{shape}/>"


def text(x: float, y: float, said: str) -> str:
    """Words at a place, escaped."""
    return f'<text x="{x:.0f}" y="{y:.0f}">{escape(said)}</text>'


def _summary(kind: str, points: Sequence[Mapping[str, Any]]) -> str:
    last = points[-1]
    shown = ("not finite" if last[k] is None else f"{last[k]:.2g}" for k in ("total", "total_ideal"))
    return "{}: {} at the last block, ideal {}".format(kind, *shown)


def document(width: int, height: int, title: str, description: str, parts: Sequence[str]) -> str:
    """A whole picture with its title and description."""
    box = f'viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(title)}'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}'
    inner = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'{head} font-family="sans-serif" font-size="12" fill="currentColor">{inner}{"".join(parts)}</svg>\n'
