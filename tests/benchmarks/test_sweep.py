"""The benchmark of the whole sweep counts what its report says, and goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.sweep import Bench, found_figures, is_plain, parts
from pipeline.catalogue.entry import CatalogueEntry


def listed(number: int, **over: object) -> CatalogueEntry:
    values = {"downloads": 100, "config_confidence": "exact", **over}
    return CatalogueEntry(f"a/{number}", number, **values)  # type: ignore[arg-type]


def told(number: int, outcome: str) -> dict[str, object]:
    return {"model": f"a/{number}", "outcome": outcome, "kind": None, "reason": "because of 'a/1'"}


def test_passing_rows_count_by_number_and_by_downloads() -> None:
    entries = [listed(1, downloads=970), listed(2, custom_code=True), listed(3, downloads=30)]
    report = {"models": [told(1, "passed"), told(2, "passed"), told(3, "failed")]}
    figures = [figure.value for figure in found_figures(entries, report)]
    assert figures == [2, 1, pytest.approx(97.27)]


@pytest.mark.parametrize(
    ("over", "plain"), [({}, True), ({"custom_code": True}, False), ({"config_confidence": "near"}, False)]
)
def test_a_mapping_is_plain_if_the_stock_class_is_the_model_s_own(over: dict[str, object], plain: bool) -> None:
    assert is_plain(listed(1, **over)) is plain


def test_the_time_of_a_stopped_part_is_kept(tmp_path: Path) -> None:
    bench = Bench("file", tmp_path, None)
    with pytest.raises(KeyboardInterrupt), parts(bench):
        raise KeyboardInterrupt
    with parts(bench) as spent:
        assert len(spent) == 1
    assert len(json.loads((tmp_path / "parts.json").read_text())) == 2
