"""Where silent causes were not looked for, since the device refuses what had to run: not the same as finding none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WORDS = 160
"""Characters of the device's words that a sentence quotes."""


def sentence(unsearched: Sequence[Mapping[str, Any]]) -> str:
    """What was not searched and why, in one sentence; empty if everything was.

    `unsearched` are entries with `input` (its kind), `block` (the first one refused) and `reason`.
    """
    places: dict[tuple[str, str], list[str]] = {}
    for entry in unsearched:
        kinds = places.setdefault((entry["block"], _first_line(entry["reason"])), [])
        kinds += [] if entry["input"] in kinds else [entry["input"]]
    said = [f"from {block} on (input {', '.join(kinds)}): {reason}" for (block, reason), kinds in places.items()]
    return f"silent causes were not looked for where the device refuses: {'; '.join(said)}" if said else ""


def _first_line(words: str) -> str:
    return next((line.strip() for line in words.splitlines() if line.strip()), "no words")[:WORDS]
