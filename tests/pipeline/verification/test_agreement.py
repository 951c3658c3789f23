"""Two runs agree: documents to the letter, figures within the policy, and nothing that only one of them has."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeline.verification.agreement import CASE_FIGURES, compare_measurements, distance, document_differences
from pipeline.verification.measurements import CaseMeasurement, Measurements
from pipeline.verification.policy import current_policy

TOLERANCE = current_policy().tolerance


def test_the_same_measurements_agree(good_set: Callable[..., Measurements]) -> None:
    assert all(m.agrees and m.distance == 0 for m in compare_measurements(good_set(), good_set(), TOLERANCE))


@pytest.mark.parametrize("figure", CASE_FIGURES)
def test_a_figure_that_moved_beyond_its_tolerance_is_named(
    good_set: Callable[..., Measurements], good_case: Callable[..., CaseMeasurement], figure: str
) -> None:
    near, far = (factor * TOLERANCE[CASE_FIGURES[figure]] for factor in (0.9, 1.1))
    value = getattr(good_case(), figure)
    for moved_by, expected in ((near, []), (far, [figure])):
        other = good_set(cases=(good_case(**{figure: value - moved_by}),))
        moved = compare_measurements(good_set(cases=(good_case(),)), other, TOLERANCE)
        assert [m.figure for m in moved if not m.agrees] == expected


def test_a_case_or_figure_that_only_one_run_has_is_a_difference(good_set: Callable[..., Measurements]) -> None:
    fewer = good_set(cases=good_set().cases[:2])
    for a, b in ((good_set(), fewer), (fewer, good_set())):
        assert [m.figure for m in compare_measurements(a, b, TOLERANCE) if not m.agrees] == ["case"]
    ranked = replace(good_set(), spearman=0.999)
    assert [m.figure for m in compare_measurements(good_set(), ranked, TOLERANCE) if not m.agrees] == ["spearman"]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (None, None, 0), (1.0, None, math.inf), (math.nan, math.nan, 0), (math.nan, 1.0, math.inf),
        (math.inf, math.inf, 0), (math.inf, -math.inf, math.inf), (1.0, 0.5, 0.5),
    ],
)  # fmt: skip
def test_distance_of_figures_that_are_not_plain(a: float | None, b: float | None, expected: float) -> None:
    assert distance(a, b) == expected


def test_documents_are_compared_to_the_letter() -> None:
    stored = {"cases": [{"outcome": "passed"}, {"outcome": "void"}], "set": []}
    now = {"cases": [{"outcome": "passed"}, {"outcome": "unknown"}], "set": ["more"]}
    assert list(document_differences(stored, stored)) == []
    assert list(document_differences(stored, now)) == [
        "cases[1].outcome: 'void' was stored, 'unknown' now",
        "set: [] was stored, ['more'] now",
    ]
    assert list(document_differences({"a": 1}, {})) == ["a: 1 was stored, None now"]
