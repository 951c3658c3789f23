"""Two sweeps side by side: what fails newly, what still fails, what was mended, what came and went."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from pipeline.sweeps.service import sweep_report
from pipeline.work.models import Outcome

CHANGES = ("new", "persisting", "fixed", "entered", "left", "undecided")
"""`new` fails in the second sweep and passed in the first, `persisting` fails in both, `fixed` the other way round;
`entered` and `left` are in one sweep only; `undecided` ended as our fault or unknown in either."""


def compare_sweeps(session: Session, first: int, second: int) -> dict[str, Any]:
    """Every model whose place differs or that fails in both; models that pass in both are only counted.

    Raises `NotFound` for a sweep that does not exist.
    """
    before, after = sweep_report(session, first), sweep_report(session, second)
    old, new = ({row["model"]: row for row in report["models"]} for report in (before, after))
    names = sorted(old.keys() | new.keys(), key=lambda name: -(new.get(name) or old[name])["downloads"])
    rows = [_row(name, old.get(name), new.get(name)) for name in names]
    changed = [row for row in rows if row["change"] is not None]
    return {
        "first": _sweep(before),
        "second": _sweep(after),
        "counts": {change: sum(row["change"] == change for row in changed) for change in CHANGES},
        "passing_in_both": len(rows) - len(changed),
        "models": changed,
    }


def _sweep(report: dict[str, Any]) -> dict[str, Any]:
    return {"sweep": report["sweep"], "profile": report["profile"], "state": report["state"]}


def _row(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    latest = new or old or {}
    return {
        "model": name,
        "downloads": latest["downloads"],
        "change": _change(old, new),
        "first": old["outcome"] if old else None,
        "second": new["outcome"] if new else None,
        "reason": latest["reason"],
    }


def _change(old: dict[str, Any] | None, new: dict[str, Any] | None) -> str | None:
    if old is None or new is None:
        return "left" if new is None else "entered"
    outcomes = (old["outcome"], new["outcome"])
    if not set(outcomes) <= {Outcome.PASSED, Outcome.FAILED}:
        return "undecided"
    passed, failed = Outcome.PASSED.value, Outcome.FAILED.value
    return {(passed, failed): "new", (failed, failed): "persisting", (failed, passed): "fixed"}.get(outcomes)
