"""The full tier is for the groups that matter most, passes at full depth only, and says how far few layers mislead."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.sweep_full import choose, extrapolation, extrapolation_figures, full_figures, full_table, section
from pipeline.catalogue.entry import CatalogueEntry

PASSED = {"outcome": "passed", "depth": "2 of 12", "worst_token_cosine": 0.999, "derived_from": None}


def listed(number: int, family: str = "bert", width: int = 64, **over: Any) -> CatalogueEntry:
    config = {"model_type": family, "hidden_size": width, "vocab_size": number}
    return CatalogueEntry(f"a/{number}", number, **{"downloads": 1000 // number, "config": config, **over})


def names(entries: list[CatalogueEntry]) -> list[str]:
    return [entry.model_id for entry in entries]


def test_the_groups_with_most_downloads_and_one_of_each_family_are_chosen() -> None:
    entries = [listed(1), listed(2), listed(3, width=32), listed(4, width=16), listed(5, "mpnet"), listed(6, "mpnet")]
    told = dict.fromkeys(names(entries), PASSED)
    assert names(choose(entries, told, 10**9, groups=1).rows) == ["a/1", "a/5"]
    assert names(choose(entries, told, 10**9, groups=3).rows) == ["a/1", "a/5", "a/3"]


def test_the_row_that_was_executed_stands_for_its_group() -> None:
    entries = [listed(1), listed(2)]
    told = {"a/1": {**PASSED, "derived_from": "a/2"}, "a/2": PASSED}
    assert names(choose(entries, told, 10**9).rows) == ["a/2"]


def test_what_does_not_fit_and_what_failed_before_is_counted_and_not_run() -> None:
    entries = [listed(1, parameters=10), listed(2, width=32, parameters=99), listed(3, width=16), listed(4, width=8)]
    told = {"a/1": PASSED, "a/2": PASSED, "a/3": {**PASSED, "outcome": "failed"}}
    chosen = choose(entries, told, 50)
    assert (names(chosen.rows), chosen.not_passing, chosen.too_big) == (["a/1"], 2, 1)


@pytest.mark.parametrize(
    ("brief", "full", "expected"),
    [
        (PASSED, {"worst_token_cosine": 0.994, "depth": None}, 1.0),
        (PASSED, {"worst_token_cosine": 0.988, "depth": None}, 2.0),
        (PASSED, {"worst_token_cosine": 0.994, "depth": "2 of 12"}, None),
        ({**PASSED, "depth": None}, {"worst_token_cosine": 0.994, "depth": None}, None),
        ({}, {"worst_token_cosine": None, "depth": None}, None),
    ],
)
def test_the_error_is_extrapolated_by_the_layers(brief: Any, full: Any, expected: float | None) -> None:
    assert extrapolation(brief, full) == expected


def test_only_what_passes_at_full_depth_counts_and_it_counts_for_its_group() -> None:
    entries = [listed(1), listed(2), listed(3, width=32), listed(9, "mpnet")]
    full = {
        "a/1": {"outcome": "passed", "depth": None, "worst_token_cosine": 0.994},
        "a/3": {"outcome": "passed", "depth": "2 of 12", "worst_token_cosine": 0.994},
        "a/9": {"outcome": "unknown", "depth": None, "worst_token_cosine": None},
    }
    found = section(entries, dict.fromkeys(names(entries), PASSED), full)
    assert (found["groups"], found["passing"], found["rows"], found["downloads"]) == (2, 1, 2, 1500)
    assert found["extrapolation"] == [1.0]
    [share] = full_figures(found)
    assert share.value == round(100 * 1500 / sum(entry.downloads for entry in entries), 2)
    assert [figure.value for figure in extrapolation_figures(found)] == [1.0, 1.0]
    assert full_table(found).rows == (("bert", 2, 1, 2, f"{share.value:.2f} %", 1.0),)
