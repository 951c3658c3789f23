"""Evidence as a reviewer reads it: the verdict, every case with its controls, what was not counted, where it ran.

Stored documents may be of another gate version: what is missing is shown as not measured, never as good.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from pipeline.verification.measurements import EMBEDDING, HALF
from pipeline.verification.policy import current_policy

CASE_FIGURES = ("lowest_token_cosine", "pooled_cosine", "centred_pooled_cosine", "error_ratio", "company_token_cosine")
LIMITS = {"device": "device_token_cosine", "cpu": "cpu_token_cosine"}
"""Place to the policy's name of its limit for the plot: read from the policy, so that pages and gate never differ."""
PLOT_FLOOR = 0.98


def evidence_view(found: dict[str, Any]) -> dict[str, Any]:
    """One evidence row of `details_of`, laid out for the page."""
    document = found.get("evidence") or {}
    measured = document.get("measurements") or {}
    verdict = document.get("verdict") or {}
    said = {row["case"]: row for row in verdict.get("per_case") or ()}
    cases = [_case(case, said.get(case.get("name"), {})) for case in measured.get("cases") or ()]
    return {
        **found,
        "sentence": verdict.get("sentence") or "",
        "reasons": verdict.get("reasons") or [],
        "void": verdict.get("void_cases") or [],
        "not_applicable": verdict.get("not_applicable") or [],
        "gate": document.get("gate"),
        "policy": document.get("policy_digest"),
        "exceptions": verdict.get("exceptions") or [],
        "counts": _counts(verdict.get("per_case") or ()),
        "cases": cases,
        "controls": _controls(measured.get("cases") or ()),
        "equivalence": measured.get("equivalence") or [],
        "execution": measured.get("execution"),
        "headline": {k: v for k, v in found["measurements"].items() if not isinstance(v, list)},
    }


def _counts(per_case: Any) -> dict[str, int]:
    """Outcome to number of cases: void and unknown ones stand beside those that passed."""
    return dict(Counter(row["outcome"] for row in per_case))


def _case(case: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    controls = case.get("controls") or ()
    applicable = [control for control in controls if control.get("applicable")]
    lowest = case.get("lowest_token_cosine")
    return {
        **{name: case.get(name) for name in ("name", "draw", "side", "place", "texts", "tokens", *CASE_FIGURES)},
        "outcome": said.get("outcome"),
        "reasons": said.get("reasons") or [],
        "caught": sum(bool(control.get("caught")) for control in applicable),
        "applicable": len(applicable),
        "plot": _plot_x(lowest),
        "limit": _limit(str(case.get("place"))),
    }


def _limit(place: str) -> float | None:
    limits = current_policy().limits(EMBEDDING, HALF)
    return limits[LIMITS[place]] if place in LIMITS else None


def _plot_x(cosine: Any) -> float | None:
    """Place on an axis from `PLOT_FLOOR` to 1 in hundredths; worse values stand at its left end."""
    if not isinstance(cosine, int | float):
        return None
    return round(100 * min(max(cosine - PLOT_FLOOR, 0.0) / (1 - PLOT_FLOOR), 1.0), 2)


def _controls(cases: Any) -> list[dict[str, Any]]:
    """Each control over all cases: how often it was applicable and caught, and its highest cosine."""
    found: dict[str, dict[str, Any]] = {}
    for control in (control for case in cases for control in case.get("controls") or ()):
        row = found.setdefault(
            control["name"], {"name": control["name"], "applicable": 0, "caught": 0, "highest": None}
        )
        row["applicable"] += bool(control.get("applicable"))
        row["caught"] += bool(control.get("caught"))
        cosine = control.get("worst_token_cosine")
        if isinstance(cosine, int | float):
            row["highest"] = max(cosine, row["highest"] if row["highest"] is not None else cosine)
    return list(found.values())
