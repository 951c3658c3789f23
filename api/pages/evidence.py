"""Evidence as a reviewer reads it: the verdict, every case with its controls, what was not counted, where it ran.

Stored documents may be of another gate version: what is missing is shown as not measured, never as good.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

from pipeline.verification.measurements import EMBEDDING, HALF
from pipeline.verification.policy import Limits, current_policy

CASE_FIGURES = ("lowest_token_cosine", "pooled_cosine", "centred_pooled_cosine", "error_ratio", "company_token_cosine")
LIMITS = {"device": "device_token_cosine", "cpu": "cpu_token_cosine"}
"""Place to the policy's name of its limit: plots read the policy, so that pages and gate never differ."""


class Plot(NamedTuple):
    """A measured span on an axis, and the limits on it, in hundredths of the axis; what lies outside is at its end."""

    first: float
    last: float
    limits: list[float]


class Axes(NamedTuple):
    """Begin and end of each plot's axis, wide enough for its limits."""

    cosine: tuple[float, float]
    norm: tuple[float, float]
    error: tuple[float, float]
    control: float


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
        "axes": axes(),
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
    named = ("name", "draw", "side", "place", "texts", "tokens", "norm_low", "norm_high", *CASE_FIGURES)
    return {
        **{name: case.get(name) for name in named},
        "outcome": said.get("outcome"),
        "reasons": said.get("reasons") or [],
        "caught": sum(bool(control.get("caught")) for control in applicable),
        "applicable": len(applicable),
        "plots": _plots(case),
    }


def _limits() -> Limits:
    return current_policy().limits(EMBEDDING, HALF)


def axes() -> Axes:
    """Twice as far from the ideal value as the limit that is farthest from it."""
    limits = _limits()
    tolerance = 2 * limits["norm_tolerance"]
    floor = min(limits[name] for name in LIMITS.values())
    around = (round(1 - tolerance, 4), round(1 + tolerance, 4))
    return Axes((round(2 * floor - 1, 4), 1.0), around, (0.0, limits["error_ratio_unknown"]), limits["control_cosine"])


def _plots(case: dict[str, Any]) -> dict[str, Plot | None]:
    limits, shown, place = _limits(), axes(), str(case.get("place"))
    cosine, error = case.get("lowest_token_cosine"), case.get("error_ratio")
    tolerance = limits["norm_tolerance"]
    return {
        "cosine": _plot((cosine, cosine), shown.cosine, [limits[LIMITS[place]]] if place in LIMITS else []),
        "norm": _plot((case.get("norm_low"), case.get("norm_high")), shown.norm, [1 - tolerance, 1 + tolerance]),
        "error": _plot((error, error), shown.error, [limits["error_ratio_pass"]]),
    }


def _plot(span: tuple[Any, Any], axis: tuple[float, float], limits: list[float]) -> Plot | None:
    """None where nothing was measured."""
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in span):
        return None
    return Plot(_place(span[0], axis), _place(span[1], axis), [_place(limit, axis) for limit in limits])


def _place(value: float, axis: tuple[float, float]) -> float:
    share = (value - axis[0]) / (axis[1] - axis[0])
    return round(100 * min(max(share, 0.0), 1.0), 2)


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
    axis, limit = (0.0, 1.0), [axes().control]
    return [{**row, "plot": _plot((row["highest"], row["highest"]), axis, limit)} for row in found.values()]
