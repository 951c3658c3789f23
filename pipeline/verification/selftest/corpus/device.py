"""The same mathematics, and yet wrong on the device: what only a whole verification can refuse."""

from __future__ import annotations

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, code, library

SET: Patches = (
    library("P56", dtype="float16"),
    library("P40", fill="finfo_min_half"),
    library("P54"),
    library("P61"),
    library("P63", multiple=64, side="right"),
)
"""Without these BERT with heads of 64 does not run on the device."""
SUBJECT = "bert-64"


def _through(expression: str) -> Patches:
    """The feed-forward's first linear through an expression of its output h."""
    drafted = code(f"""
    def forward(self, x):
        h = self.dense(x)
        return self.intermediate_act_fn({expression})

    def apply(model):
        for m in each(model, "BertIntermediate"):
            replace(m, forward)
    """)
    return (*SET, *drafted)


def _cheat(name: str, wrong: str, right: str, says: str) -> Cheat:
    stages = (Stage.DEVICE, Stage.GATE)
    return Cheat(name, Kind.DEVICE, SUBJECT, _through(wrong), _through(right), "differs in 16 bits", stages, says)


CHEATS = (
    _cheat(
        "a number so large that 16 bits keep nothing of the rest",
        "(h + 4096.0) - 4096.0",
        "(h * 4.0) * 0.25",
        "cosine|error is",
    ),
    _cheat(
        "a number so large that 16 bits keep half of the rest",
        "(h + 32.0) - 32.0",
        "(h * 4.0) * 0.25",
        "error is",
    ),
    _cheat(
        "beyond the device's range and back",
        "h * 65536.0 * 65536.0 * 2.0 ** -32",
        "h * 16.0 * 16.0 * 2.0 ** -8",
        "finite|cosine|norm",
    ),
)
