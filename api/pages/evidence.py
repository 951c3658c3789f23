"""Evidence as a reviewer reads it: the verdict, every case with its controls, what was not counted, where it ran.

Stored documents may be of another gate version: what is missing is shown as not measured, never as good.
"""

from __future__ import annotations

from typing import Any

from pipeline.verification.gate import THRESHOLDS

CASE_FIGURES = ("lowest_token_cosine", "pooled_cosine", "centred_pooled_cosine", "error_ratio", "company_token_cosine")
LIMITS = {
    ("device", "lowest_token_cosine"): THRESHOLDS["device_token_cosine"],
    ("cpu", "lowest_token_cosine"): THRESHOLDS["cpu_token_cosine"],
    ("device", "pooled_cosine"): THRESHOLDS["pooled_cosine"],
    ("cpu", "pooled_cosine"): THRESHOLDS["pooled_cosine"],
}
"""The gate's limits, for the plot: read from the gate, so that pages and gate never differ."""
PLOT_FLOOR = 0.98


def evidence_view(found: dict[str, Any]) -> dict[str, Any]:
    """One evidence row of `details_of`, laid out for the page."""
    document = found.get("evidence") or {}
    measured = document.get("measurements") or {}
    verdict = document.get("verdict") or {}
    cases = [_case(case) for case in measured.get("cases") or ()]
    return {
        **found,
        "sentence": verdict.get("sentence") or "",
        "reasons": verdict.get("reasons") or [],
        "void": verdict.get("void_cases") or [],
        "not_applicable": verdict.get("not_applicable") or [],
        "gate": document.get("gate"),
        "cases": cases,
        "controls": _controls(measured.get("cases") or ()),
        "elementwise": measured.get("elementwise") or [],
        "execution": measured.get("execution"),
        "headline": {k: v for k, v in found["measurements"].items() if not isinstance(v, list)},
    }


def _case(case: dict[str, Any]) -> dict[str, Any]:
    controls = case.get("controls") or ()
    applicable = [control for control in controls if control.get("applicable")]
    lowest = case.get("lowest_token_cosine")
    return {
        **{name: case.get(name) for name in ("name", "draw", "side", "place", "texts", "tokens", *CASE_FIGURES)},
        "caught": sum(bool(control.get("caught")) for control in applicable),
        "applicable": len(applicable),
        "plot": _plot_x(lowest),
        "limit": LIMITS.get((str(case.get("place")), "lowest_token_cosine")),
    }


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
