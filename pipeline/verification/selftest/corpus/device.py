"""The same mathematics, and yet wrong on the device: what only a whole verification can refuse.

Each set lacks one patch without which the device gives wrong values or none; in plain torch nothing is missing.
"""

from __future__ import annotations

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, library

SET: Patches = (
    library("P56", dtype="float16"),
    library("P40", fill="finfo_min_half"),
    library("P54"),
    library("P61"),
    library("P63", multiple=64, side="right"),
)
"""With these BERT with heads of 64 runs on the device."""
SUBJECT = "bert-64"
SAYS = "cosine|norm|finite|Error|error is|not support"


def _without(pattern: str, name: str) -> Cheat:
    rest = tuple(p for p in SET if p["pattern"] != pattern)
    return Cheat(name, Kind.DEVICE, SUBJECT, rest, SET, "same", (Stage.DEVICE, Stage.GATE), SAYS)


CHEATS = (
    _without("P40", "masks as the stock code makes them"),
    _without("P54", "attention input that is not contiguous"),
    _without("P61", "no copy at the borders of blocks"),
    _without("P63", "lengths that are no whole buckets"),
)
