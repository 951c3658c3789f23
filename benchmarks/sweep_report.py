"""The report over a catalogue: what capability forecasts, what was executed, with targets; page, HTML and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, environment
from benchmarks.sweep_forecast import forecasts_of
from benchmarks.sweep_full import full_figures, full_table, section
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.unit_of_work import reading
from pipeline.settings import Settings
from pipeline.sweeps import repository
from pipeline.sweeps.catalogue_report import PUBLISHED_PASSING, PUBLISHED_SUPPORTED, catalogue_report
from pipeline.sweeps.models import Sweep
from pipeline.sweeps.report_tables import Table, as_csv, as_html, as_markdown, tables_of
from pipeline.sweeps.service import sweep_report
from pipeline.sweeps.standing import standings

SWEEP_TIER, FULL_TIER = "sweep", "full"
WHOLE = 10_000
"""Rows that the targets are for; a shorter catalogue has its share of them."""
TITLE = "Coverage of the 10,000 most downloaded embedding models"
INTRO = """Written by `python -m benchmarks.sweep --catalog FILE --only report --page docs/coverage-10k.md`; sums only,
no row of the catalogue. Weights are synthetic everywhere: none of these verdicts is about a checkpoint's own weights.

`supported` is a forecast: the capability report of each group's first model with the adapter that matches it, nothing
executed. `passing` counts only what was executed at the sweep tier and got the verdict `passed`. Rows whose mapping is
not `native` are shown apart: nobody has compared the stock class with the code of the repository. A row is one of a
group if only names, vocabulary size and special token ids differ; one of a group is executed.
"""


@dataclass(frozen=True)
class Outputs:
    """Files to write; None for those that were not asked for."""

    page: Path | None = None
    html: Path | None = None
    csv: Path | None = None
    known: bool = False
    """Make no forecast: groups without one are said to be not asked yet."""


def executed_by(settings: Settings, catalog: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, float]]]:
    """What the newest sweep over a catalogue says of each model, as far as it has come, and its stages' costs."""
    if not (settings.data_dir / "factory.sqlite3").is_file():
        return {}, {}
    with reading() as session:
        sweeps = [sweep for sweep in repository.list_sweeps(session) if _is_of(sweep, catalog)]
        if not sweeps:
            return {}, {}
        told = {row["model"]: row for row in sweep_report(session, sweeps[0].id)["models"]}
        return told, repository.stage_costs(session, sweeps[0].id)


def _is_of(sweep: Sweep, catalog: str) -> bool:
    return sweep.snapshot.source == catalog and sweep.tier == SWEEP_TIER


def full_by(settings: Settings) -> dict[str, dict[str, Any]]:
    """What the sweeps at the full tier of an installation say of each model they were over, the newest last."""
    if not (settings.data_dir / "factory.sqlite3").is_file():
        return {}
    with reading() as session:
        sweeps = [sweep for sweep in repository.list_sweeps(session) if sweep.tier == FULL_TIER]
        rows = (row for sweep in reversed(sweeps) for row in sweep_report(session, sweep.id)["models"])
        return {row["model"]: row for row in rows}


def report_of(
    entries: Sequence[CatalogueEntry],
    folder: Path,
    profile: str,
    settings: Settings,
    catalog: str,
    *,
    make: bool = True,
) -> dict[str, Any]:
    """The report; with `make`, forecasts that are not kept in `folder` are made."""
    told, costs = executed_by(settings, catalog)
    report = catalogue_report(standings(entries, forecasts_of(entries, folder, profile, make=make), told), costs)
    return {**report, "full_tier": section(entries, told, full_by(settings))}


def figures_of(report: Mapping[str, Any]) -> Iterator[Figure]:
    """The figures of the report with their targets."""
    totals, outside = report["totals"], report["outside_top"]
    share = totals["rows"] / WHOLE
    yield Figure("supported rows (forecast by capability)", totals["supported"], "", 9_350 * share, at_least=True)
    yield Figure("passing rows at the sweep tier (executed)", totals["passing"], "", 9_200 * share, at_least=True)
    yield _percent("downloads supported (forecast)", totals, "supported", 98.0)
    yield _percent("downloads supported outside the top 10 (forecast)", outside, "supported", 96.0)
    yield _percent("downloads passing at the sweep tier (executed)", totals, "passing", 98.0)
    yield from full_figures(report["full_tier"])
    yield Figure("of the top 100 without a verdict or a reason", report["top_without_answer"], "", 0.0)
    yield Figure("adapters that serve a row", report["adapters"], "", 13.0)
    yield Figure("groups not executed yet", report["groups"]["groups"] - report["groups"]["executed"], "", 0.0)


def calibration_figures(report: Mapping[str, Any]) -> Iterator[Figure]:
    """The published families alone, beside the published result."""
    found = report["calibration"]
    yield Figure("published families: supported", found["supported"], "", PUBLISHED_SUPPORTED, at_least=True)
    yield Figure("published families: passing (executed)", found["passing"], "", PUBLISHED_PASSING, at_least=True)


def _percent(name: str, tally: Mapping[str, int], what: str, target: float) -> Figure:
    value = 100 * tally[f"{what}_downloads"] / max(tally["downloads"], 1)
    return Figure(name, round(value, 2), "%", target, at_least=True)


def write(report: Mapping[str, Any], figures: Sequence[Figure], outputs: Outputs) -> None:
    """The files that were asked for."""
    tables = [figure_table(figures), *tables_of(report), full_table(report["full_tier"])]
    if outputs.page is not None:
        versions = ", ".join(f"{k} {v}" for k, v in environment().items() if k in ("torch", "transformers", "profile"))
        outputs.page.write_text(f"# {TITLE}\n\n{INTRO}\nMeasured on: {versions}.\n\n{as_markdown(tables)}")
    if outputs.html is not None:
        outputs.html.write_text(as_html(tables, TITLE))
    if outputs.csv is not None:
        outputs.csv.write_text(as_csv(tables))


def figure_table(figures: Sequence[Figure]) -> Table:
    """The figures beside their targets."""
    rows = tuple((f.name, _shown(f), _bound(f), "met" if f.met else "NOT MET") for f in figures)
    return Table("Figures and targets", "As the issue states them.", ("figure", "value", "target", ""), rows)


def _shown(figure: Figure) -> str:
    return "not measured" if figure.value is None else f"{figure.value:,} {figure.unit}".strip()


def _bound(figure: Figure) -> str:
    if figure.target is None:
        return "no target"
    return f"{'at least' if figure.at_least else 'at most'} {figure.target:,.0f} {figure.unit}".strip()
