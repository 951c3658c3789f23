"""The benchmark of the whole sweep goes on where it was stopped, and its page says what its report says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.sweep import Bench, parts
from benchmarks.sweep_forecast import forecasts_of, speakers_of
from benchmarks.sweep_full import section
from benchmarks.sweep_report import Outputs, calibration_figures, figures_of, write
from benchmarks.sweep_sample import stratified, write_sample
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.catalogue.service import load_catalogue
from pipeline.sweeps.catalogue_report import catalogue_report
from pipeline.sweeps.standing import standings

BERT = {"model_type": "bert", "hidden_size": 64}


def listed(number: int, **over: object) -> CatalogueEntry:
    values = {"downloads": 100, "config": BERT, "config_confidence": "exact", "model_type": "bert", **over}
    return CatalogueEntry(f"a/{number}", number, **values)  # type: ignore[arg-type]


def test_the_time_of_a_stopped_part_is_kept(tmp_path: Path) -> None:
    bench = Bench("file", tmp_path, None)
    with pytest.raises(KeyboardInterrupt), parts(bench):
        raise KeyboardInterrupt
    with parts(bench) as spent:
        assert len(spent) == 1
    assert len(json.loads((tmp_path / "parts.json").read_text())) == 2


def test_the_group_with_most_downloads_is_forecast_first_and_dropped_rows_are_not() -> None:
    wide = {"config": {**BERT, "hidden_size": 128}}
    entries = [listed(1), listed(2, downloads=900, **wide), listed(3, dropped_kind="gated", dropped_reason="no")]
    assert [[entry.rank for entry in group] for group in speakers_of(entries).values()] == [[2], [1]]


def test_the_written_page_holds_the_figures_and_no_row_of_the_catalogue(tmp_path: Path) -> None:
    entries = [listed(1), listed(2)]
    told = {"a/1": {"outcome": "passed", "depth": "2 of 12", "worst_token_cosine": 0.999}}
    full = {"a/1": {"outcome": "passed", "depth": None, "worst_token_cosine": 0.996}}
    report = {**catalogue_report(standings(entries, {}, told)), "full_tier": section(entries, told, full)}
    figures = [*figures_of(report), *calibration_figures(report)]
    write(report, figures, Outputs(tmp_path / "p.md", tmp_path / "p.html", tmp_path / "p.csv"))
    for name in ("p.md", "p.html", "p.csv"):
        text = (tmp_path / name).read_text()
        assert "passing rows at the sweep tier" in text
        assert "a/1" not in text
        assert "Full tier by family" in text
    assert "Figures and targets" in (tmp_path / "p.md").read_text()


def test_what_was_not_executed_is_not_passing_and_a_missing_full_tier_is_not_measured() -> None:
    report = catalogue_report(standings([listed(1)], {}, {}))
    found = figures_of({**report, "full_tier": section([listed(1)], {}, {})})
    figures = {figure.name: figure for figure in found}
    assert figures["passing rows at the sweep tier (executed)"].value == 0
    assert figures["downloads passing at the full tier"].value is None
    assert not figures["downloads passing at the full tier"].met


def test_a_sample_has_rows_of_every_stratum_and_is_the_same_each_time() -> None:
    many = [listed(number) for number in range(1, 40)]
    others = [listed(50, custom_code=True), listed(51, dropped_kind="gated", dropped_reason="no")]
    chosen = stratified([*many, *others], 5)
    assert {50, 51} < {entry.rank for entry in chosen}
    assert chosen == stratified([*many, *others], 5)
    assert len(stratified(many, 100)) == len(many)


def test_the_sample_is_a_catalogue_file_of_the_same_rows_and_configurations(tmp_path: Path) -> None:
    rows = [{"rank": n, "model_id": f"a/{n}", "downloads": 1, "config_ref": "c"} for n in (1, 2, 3)]
    (tmp_path / "hub_configs.json").write_text(json.dumps({"c": {"config": BERT}}))
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    whole = load_catalogue(str(tmp_path / "c.jsonl"))
    file = write_sample(whole[1:], tmp_path / "c.jsonl", tmp_path / "sample")
    assert load_catalogue(str(file)) == whole[1:]


def test_a_report_of_what_is_known_makes_no_forecast(tmp_path: Path) -> None:
    found = forecasts_of([listed(1)], tmp_path, "profile-2026-08", make=False)
    assert list(found.values()) == [{}]
    assert not list(tmp_path.iterdir())
