"""What a drafter may learn from a refusal: kind, patch and size of the error. No probe, no length, no exact figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.types import FailureKind

KINDS = {"finite": FailureKind.NON_FINITE, "execution": FailureKind.CPU_FALLBACK, "output": FailureKind.MALFORMED}
OF_PATCHES = frozenset({"equivalence"})
"""Measures whose findings are about one patch, which their case names."""
UNEXPLAINED = "the gate refused it"
INEXACT = "right, but with more error than 16 bits explain"
"""What is told of a candidate that nothing is wrong with but its error in all: another form of the same may have less.
"""
OF_ROUNDING = "error_ratio"
"""The measure of that error, as the gate names it."""


def is_inexact(reasons: Sequence[dict[str, Any]]) -> bool:
    """Whether a verdict was kept from passing by the size of the error alone, in the gate's band of not knowing."""
    return bool(reasons) and all(r["measure"] == OF_ROUNDING and r["outcome"] == "unknown" for r in reasons)


def told(reasons: Sequence[dict[str, Any]], worst_cosine: Any = None) -> str:
    """One sentence made of the verdict's reasons (`Finding._asdict()`), with the error to one digit."""
    failed = [r for r in reasons if r.get("outcome") == "failed"]
    kinds = sorted({str(KINDS.get(r["measure"], FailureKind.WRONG_VALUES)) for r in failed})
    patches = sorted({r["case"] for r in failed if r["measure"] in OF_PATCHES})
    of = f" of {', '.join(patches)}" if patches else ""
    return f"{UNEXPLAINED}: {', '.join(kinds)}{of}{_size(worst_cosine)}" if kinds else UNEXPLAINED


def _size(worst_cosine: Any) -> str:
    return f", error {1 - worst_cosine:.0e}" if isinstance(worst_cosine, float) else ""
