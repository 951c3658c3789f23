"""The report over a catalogue: forecasts and verdicts apart, unverified mappings apart, every sum by downloads too."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.sweeps.catalogue_report import catalogue_report
from pipeline.sweeps.groups import group_key
from pipeline.sweeps.report_tables import Table, as_csv, as_html, as_markdown, tables_of
from pipeline.sweeps.standing import Standing, standings

BERT: dict[str, Any] = {"model_type": "bert", "hidden_size": 64}
QWEN: dict[str, Any] = {"model_type": "qwen3", "hidden_size": 64}
PASSED = {"outcome": "passed", "worst_token_cosine": 0.99}
FITS = {"supported": True, "adapter": "bert-shaped", "reason": ""}
FAILS = {
    "supported": False,
    "kind": "unsupported_op",
    "reason": "'a/2': no adapter",
    "causes": ["unsupported_op aten.x"],
    "lacks": "rotary but for kv_groups 4, not 2",
    "causal": True,
}


def listed(rank: int, **over: Any) -> CatalogueEntry:
    return CatalogueEntry(f"a/{rank}", rank, **{"downloads": 100 * rank, "config": BERT, "model_type": "bert", **over})


def stand(entries: list[CatalogueEntry], told: dict[str, Any] | None = None) -> list[Standing]:
    keys = {str(group_key(listed(1))): FITS, str(group_key(listed(1, config=QWEN))): FAILS}
    return standings(entries, keys, told or {})


def test_a_forecast_supports_a_row_but_only_an_execution_passes_it() -> None:
    found = catalogue_report(stand([listed(1), listed(2)], {"a/1": PASSED}))["totals"]
    assert (found["supported"], found["passing"], found["executed"]) == (2, 1, 1)
    assert (found["supported_downloads"], found["passing_downloads"], found["downloads"]) == (300, 100, 300)


@pytest.mark.parametrize("over", [{"custom_code": True}, {"near_config": BERT}])
def test_a_row_whose_mapping_nobody_verified_is_never_plainly_passing(over: dict[str, Any]) -> None:
    found = catalogue_report(stand([listed(1, **over)], {"a/1": PASSED}))
    assert (found["totals"]["passing"], found["totals"]["passing_plain"]) == (1, 0)


def test_a_row_that_failed_before_execution_was_not_executed() -> None:
    (standing,) = stand([listed(1, config=QWEN)], {"a/1": {"outcome": "failed", "kind": "x", "reason": "r"}})
    assert (standing.executed, standing.supported, standing.reason) == (False, False, "r")


def test_a_sweep_answers_where_no_forecast_was_made() -> None:
    told = {
        "a/1": {**PASSED, "adapter": "bert-shaped v2 (bundled)"},
        "a/2": {"outcome": "failed", "kind": "layout", "reason": "r"},
    }
    first, second, third = standings([listed(1), listed(2), listed(3)], {}, told)
    assert (first.supported, first.adapter) == (True, "bert-shaped")
    assert (second.supported, second.explained) == (False, True)
    assert (third.supported, third.explained) == (None, False)


def test_reasons_are_merged_over_models_and_fixes_name_family_and_what_is_missing() -> None:
    entries = [listed(rank, config=QWEN, model_type="qwen3") for rank in (1, 2)]
    found = catalogue_report(stand(entries))
    assert found["by_reason"] == [{"reason": "unsupported_op: no adapter", "rows": 2, "downloads": 300}]
    (fix,) = found["next_fixes"]
    assert fix == {
        "family": "qwen3",
        "what is missing": "rotary but for kv_groups 4, not 2",
        "groups": 1,
        "rows": 2,
        "downloads": 300,
    }


def test_masks_that_a_stock_class_keeps_are_found_where_the_own_code_lifts_or_may_lift_them() -> None:
    entries = [
        listed(1, config=QWEN, bidirectional=True, custom_code=True),
        listed(2, config=QWEN, custom_code=True),
        listed(3, config=QWEN),
        listed(4, bidirectional=True, custom_code=True),
    ]
    assert [found["rows"] for found in catalogue_report(stand(entries))["masks"].values()] == [1, 1]


def test_the_top_needs_a_verdict_or_a_reason_each() -> None:
    dropped = listed(3, config=None, dropped_kind="remote_code", dropped_reason="'a/3': its own code")
    found = catalogue_report(stand([listed(1), listed(2), dropped], {"a/1": PASSED}))
    assert found["top_without_answer"] == 1


def test_the_calibration_counts_the_published_families_alone() -> None:
    entries = [listed(1), listed(2, model_type="nomic_bert"), listed(3, config=None)]
    found = catalogue_report(stand(entries, {"a/1": PASSED, "a/2": PASSED}))["calibration"]
    assert (found["rows"], found["with a configuration"], found["supported"], found["passing"]) == (2, 1, 1, 1)
    assert found["excess supported"] == 1 - 7960


def test_tables_are_written_in_three_forms_and_texts_are_escaped() -> None:
    tables = [*tables_of(catalogue_report(stand([listed(1)]))), Table("T", "<b>", ("a", "b"), (("x|y", 1234),))]
    assert "x\\|y | 1,234 |" in as_markdown(tables)
    assert "&lt;b&gt;" in as_html(tables, "t")
    assert "T,x|y,b,1234" in as_csv(tables)
