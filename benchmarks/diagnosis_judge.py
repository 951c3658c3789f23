"""Judges one case of the diagnosis benchmark: is every fault named, with the right kind, operation and condition?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.diagnosis_faults import Fault
from pipeline.diagnosis.names import written
from pipeline.diagnosis.wrong_values.programs import VIEWS

SILENT = ("wrong_values", "non_finite")


class Verdict(NamedTuple):
    """One case: did the fault trigger, was it called anything at all, and was it called rightly."""

    triggered: bool
    kind: bool
    named: bool
    false_causes: int
    reproducers: int
    same: int
    passed: bool
    """Nothing was said although a fault triggers."""
    curve: bool
    """A cause is drift, with the error curve."""


def judge(faults: Sequence[Fault], out: dict[str, Any]) -> Verdict:
    """The verdict on a case with these faults in."""
    truth = [t for t in out["truth"] if t["kind"] != "cpu_fallback"]
    said = [c for c in out["causes"] if c["kind"] != "cpu_fallback"]
    conditions = frozenset(c for f in faults for c in f.conditions)
    rights = [c for c in said if is_right(c, truth, conditions)]
    scripts = [c["reproducer"] for c in said if c["reproducer"] and "as" not in c["reproducer"]]
    return Verdict(
        triggered=bool(truth),
        kind=any(_same_kind(c["kind"], truth) for c in said),
        named=bool(rights)
        and all(any(_same_op(c, t) for c in rights) for t in _demanded(truth))
        and not (len(faults) > 1 and out.get("left")),
        false_causes=len([c for c in said if not any(_same_op(c, t) for t in truth) and c not in rights]),
        reproducers=len(scripts),
        same=len([s for s in scripts if s["script"]]),
        passed=bool(truth) and not said,
        curve=any(c["condition"] == "drift" and c["evidence"].get("curve") for c in said),
    )


def is_right(cause: dict[str, Any], truth: Sequence[dict[str, str]], conditions: frozenset[str]) -> bool:
    """The right operation and condition; refusals carry their condition in the words of the compiler."""
    if cause["condition"] in conditions & {"border", "drift"}:
        return True
    op = any(_same_op(cause, t) for t in truth)
    return op and (cause["kind"] not in SILENT or cause["condition"] in conditions)


def is_named(fault: Fault, out: dict[str, Any]) -> bool:
    """True if a cause is right and, where the fault has conditions, says one of them."""
    truth = [t for t in out["truth"] if t["kind"] != "cpu_fallback"]
    said = [c for c in out["causes"] if c["kind"] != "cpu_fallback"]
    return any(is_right(c, truth, fault.conditions) and _says_one(c, fault) for c in said)


def _says_one(cause: dict[str, Any], fault: Fault) -> bool:
    return cause["condition"] in fault.conditions if fault.conditions else cause["kind"] not in SILENT


def _demanded(truth: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """What must be named: everything inside the blocks, for what lies outside runs on the host or is loud."""
    return [t for t in truth if t["place"] == "block" or t["kind"] not in SILENT]


def _same_op(cause: dict[str, Any], truth: dict[str, str]) -> bool:
    """The operation itself, or one that is said to be wrong when it reads through that view: views compute nothing."""
    is_view = truth["op"].removeprefix("aten.") in VIEWS
    return written(cause["op"]) == written(truth["op"]) or (is_view and truth["op"] in cause.get("message", ""))


def _same_kind(kind: str, truth: Sequence[dict[str, str]]) -> bool:
    return any(kind == t["kind"] or (kind in SILENT and t["kind"] in SILENT) for t in truth)
