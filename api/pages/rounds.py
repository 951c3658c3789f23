"""What differs between a candidate and the one before it: one that was sent back, or that a patch was struck from."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from api.pages.sources import document_lines

AROUND = 3
SIGNS = {"+": "new", "-": "gone", " ": "kept"}
WRITTEN_OUT = ("document", "source")
"""Parameters that are shown line by line."""


class DiffLine(NamedTuple):
    """A line with its sign ("+", "−" or a space) and the style that goes with it."""

    sign: str
    text: str
    style: str


def set_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[DiffLine]:
    """The changed lines between two sets (`agents.types.Candidate` as plain data), with some around them."""
    lines = difflib.unified_diff(list(_lines(before)), list(_lines(after)), n=AROUND, lineterm="")
    return [_line(text) for text in lines if not text.startswith(("---", "+++"))]


def _line(text: str) -> DiffLine:
    if text.startswith("@@"):
        return DiffLine("…", "", "kept")
    return DiffLine(text[0].replace("-", "−"), text[1:], SIGNS[text[0]])


def _lines(candidate: Mapping[str, Any]) -> Iterator[str]:
    for patch in candidate.get("patches") or ():
        yield f"{patch.get('pattern')}: {patch.get('exactness')}, drafted by {patch.get('drafter')}"
        parameters = patch.get("parameters") or {}
        for name, value in sorted(parameters.items()):
            yield from _written(name, value)
        yield from (f"    proof: {step}" for step in patch.get("proof") or ())


def _written(name: str, value: Any) -> Iterator[str]:
    lines = document_lines(value) if name == "document" else str(value).splitlines() if name == "source" else []
    if name not in WRITTEN_OUT or not lines:
        lines = [f"{name} = {json.dumps(value, ensure_ascii=False, sort_keys=True)}"]
    yield from (f"    {line}" for line in lines)
