"""Evidence laid out: plots are on axes that the policy gives, and what was not measured has no plot."""

from __future__ import annotations

from typing import Any

import pytest

from api.pages.evidence import axes, evidence_view
from pipeline.verification.measurements import EMBEDDING, HALF
from pipeline.verification.policy import current_policy


def laid_out(case: dict[str, Any]) -> dict[str, Any]:
    document = {"measurements": {"cases": [{"name": "c", "place": "device", **case}]}}
    shown: dict[str, Any] = evidence_view({"evidence": document, "measurements": {}})
    return shown


def test_a_limit_stands_between_the_ends_of_its_axis() -> None:
    limits, shown = current_policy().limits(EMBEDDING, HALF), axes()
    assert shown.cosine[0] < limits["device_token_cosine"] < shown.cosine[1]
    assert shown.norm[0] < 1 - limits["norm_tolerance"] < 1 + limits["norm_tolerance"] < shown.norm[1]
    assert shown.error[0] < limits["error_ratio_pass"] < shown.error[1]


def test_each_figure_stands_at_its_share_of_the_axis() -> None:
    shown, figures = axes(), {"lowest_token_cosine": 1.0, "norm_low": 1.0, "norm_high": 1.0, "error_ratio": 0.0}
    plots = laid_out(figures)["cases"][0]["plots"]
    assert (plots["cosine"].first, plots["norm"].first, plots["norm"].last, plots["error"].first) == (100, 50, 50, 0)
    assert plots["norm"].limits == [25, 75]
    worst = {"lowest_token_cosine": -1.0, "norm_low": 0.0, "norm_high": 9.0, "error_ratio": 10 * shown.error[1]}
    plots = laid_out(worst)["cases"][0]["plots"]
    assert (plots["cosine"].first, plots["norm"].first, plots["norm"].last, plots["error"].last) == (0, 0, 100, 100)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "high"])
def test_what_is_no_number_has_no_plot(value: Any) -> None:
    figures = {"lowest_token_cosine": value, "norm_low": value, "norm_high": 1.0, "error_ratio": value}
    assert set(laid_out(figures)["cases"][0]["plots"].values()) == {None}


def test_a_control_stands_at_its_highest_cosine_over_all_cases() -> None:
    controls = [{"name": "zeros", "applicable": True, "caught": True, "worst_token_cosine": c} for c in (0.2, 0.6)]
    (row,) = laid_out({"controls": controls})["controls"]
    assert (row["highest"], row["plot"].first, row["caught"]) == (0.6, 60, 2)
