"""The failing region of a silent cause: its operations as plain data, as a table and as a picture (SVG text).

A region is a list of rows in the order of computation: `name`, `op`, `source`, `reads` (names of earlier rows or of
inputs) and `wrong`, true for the operation that the diagnosis names. It is what the reproducer runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.diagnosis.pictures import document, line, text

if TYPE_CHECKING:
    from pipeline.diagnosis.wrong_values.programs import Operation, Program

ROW, WIDTH, LEFT, BOX = 30, 640, 120, 22
"""Height of a row, width of the picture, where the boxes begin, height of a box."""


def region_of(program: Program, named: Operation) -> list[dict[str, Any]]:
    """The rows of a program; `named` is the operation that the diagnosis names."""
    return [
        {
            "name": o.name,
            "op": o.op,
            "source": o.source,
            "reads": list(dict.fromkeys(o.reads())),
            "wrong": o.name == named.name,
        }
        for o in program.operations
    ]


def region_rows(region: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The table beside the picture: one row per operation, with what it reads in words."""
    ops = {row["name"]: row["op"] for row in region}
    return [
        {
            "op": row["op"],
            "source": row["source"],
            "reads": ", ".join(ops.get(name, f"input {name}") for name in row["reads"]),
            "named": "wrong" if row["wrong"] else "",
        }
        for row in region
    ]


def failing_region(region: Sequence[Mapping[str, Any]]) -> str:
    """The operations from first to last, each with lines to those it reads; the wrong one has a thick border."""
    place = {row["name"]: n for n, row in enumerate(region)}
    parts: list[str] = []
    for n, row in enumerate(region):
        y = 8 + n * ROW
        width = "3" if row["wrong"] else "1"
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 8}" height="{BOX}" fill="none" stroke="currentColor" '
            f'stroke-width="{width}"/>'
        )
        given = [name for name in row["reads"] if name not in place]
        said = f"{row['op']}  {row['source']}" + ("  (wrong)" if row["wrong"] else "")
        parts.append(text(LEFT + 8, y + 15, said))
        parts += [text(4, y + 15, ", ".join(given))] if given else []
        parts += [_edge(place[name], n) for name in row["reads"] if name in place]
    wrong = [row["op"] for row in region if row["wrong"]]
    said = f"{len(region)} operations, wrong: {', '.join(wrong) or 'none by itself'}"
    return document(WIDTH, 16 + len(region) * ROW, "Failing region", said, parts)


def _edge(start: int, stop: int) -> str:
    """From the box of row `start` to that of row `stop`, outside those between."""
    top, bottom = 8 + start * ROW + BOX, 8 + stop * ROW
    if stop == start + 1:
        return line(f"M{LEFT + 40} {top}V{bottom}", "0.7")
    bend = LEFT - 8 * min(stop - start, 6)
    return line(f"M{LEFT} {top - BOX / 2:g}H{bend}V{bottom + BOX / 2:g}H{LEFT}", "0.7")
