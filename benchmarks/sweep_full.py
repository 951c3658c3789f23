"""The full tier over the groups that matter most: every oracle at full depth, beside the sweep and on top of it.

Chosen are the groups with the most downloads and one of each family, as far as the sweep tier has passed them and their
full depth fits; the others are counted. It is a sweep of its own over these models, resumed as the first is. What it
says replaces the sweep tier's verdict of the whole group.

The sweep tier runs few layers. Errors of layers that are drawn alike add up as variances do, so that what a cosine
lacks to 1 is expected to grow as the layers: that is the depth extrapolation, checked here against what full depth
measures.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import Figure
from benchmarks.sweep_forecast import speakers_of
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.sweeps.report_tables import Table
from pipeline.work.models import Outcome

FULL_GROUPS = 40
"""Groups with the most downloads that the full tier is for; one per family comes on top."""
DOWNLOADS = 95.0
"""Percent of the downloads that should pass at the full tier."""
Told = Mapping[str, Mapping[str, Any]]
"""By model, a row of a sweep's report."""


@dataclass(frozen=True)
class Chosen:
    """The rows to run, one per group, the most downloaded first; and why other groups that matter are not run."""

    rows: list[CatalogueEntry]
    not_passing: int
    too_big: int


def choose(entries: Sequence[CatalogueEntry], told: Told, largest: int, groups: int = FULL_GROUPS) -> Chosen:
    """The rows for the full tier by what the sweep tier `told`: of each group the one that was executed for it.

    `largest`: parameters up to which a model is run at full depth.
    """
    by_name = {entry.model_id: entry for entry in entries}
    wanted = _wanted(entries, groups)
    executed = [by_name.get(str(_speaker(rows[0], told))) for rows in wanted]
    passing = [entry for entry in executed if entry is not None and _passes(told.get(entry.model_id, {}))]
    fitting = [entry for entry in passing if (entry.parameters or 0) <= largest]
    return Chosen(fitting, len(wanted) - len(passing), len(passing) - len(fitting))


def _wanted(entries: Sequence[CatalogueEntry], groups: int) -> list[list[CatalogueEntry]]:
    ordered = sorted(speakers_of(entries).values(), key=lambda rows: -_downloads(rows))
    families: dict[str, list[CatalogueEntry]] = {}
    for rows in ordered:
        families.setdefault(_family(rows[0]), rows)
    first = ordered[:groups]
    return first + [rows for rows in families.values() if not any(rows is other for other in first)]


def _speaker(entry: CatalogueEntry, told: Told) -> str:
    return told.get(entry.model_id, {}).get("derived_from") or entry.model_id


def _passes(row: Mapping[str, Any]) -> bool:
    return row.get("outcome") == Outcome.PASSED


def _family(entry: CatalogueEntry) -> str:
    return str((entry.config or {}).get("model_type") or entry.model_type)


def _downloads(rows: Iterable[CatalogueEntry]) -> int:
    return sum(entry.downloads for entry in rows)


def section(entries: Sequence[CatalogueEntry], told: Told, full: Told) -> dict[str, Any]:
    """What the full tier has said so far, by family; sums only. `told` and `full`: rows of either tier, by model."""
    ran: dict[str, list[dict[str, Any]]] = {}
    for rows in speakers_of(entries).values():
        row = next((full[entry.model_id] for entry in rows if entry.model_id in full), None)
        if row is not None and row["outcome"] in (Outcome.PASSED, Outcome.FAILED):
            brief = told.get(_speaker(rows[0], told), {})
            ran.setdefault(_family(rows[0]), []).append(_one(rows, row, brief))
    every = [one for ones in ran.values() for one in ones]
    passing = [one for one in every if one["passes"]]
    return {
        "groups": len(every),
        "passing": len(passing),
        "rows": sum(one["rows"] for one in passing),
        "downloads": sum(one["downloads"] for one in passing),
        "of_downloads": _downloads(entries),
        "by_family": [_of_family(name, ones) for name, ones in ran.items()],
        "extrapolation": [one["extrapolation"] for one in every if one["extrapolation"] is not None],
    }


def _one(rows: Sequence[CatalogueEntry], full: Mapping[str, Any], brief: Mapping[str, Any]) -> dict[str, Any]:
    """A group: it passes at the full tier only at full depth."""
    passes = _passes(full) and full["depth"] is None
    counted = {"rows": len(rows), "downloads": _downloads(rows), "passes": passes}
    return {**counted, "extrapolation": extrapolation(brief, full)}


def extrapolation(brief: Mapping[str, Any], full: Mapping[str, Any]) -> float | None:
    """How many times the error that is expected from few layers full depth has; None if it was not measured at both.

    An error is what the lowest token cosine lacks to 1. `depth` of a cut model is "2 of 12".
    """
    short, whole = (row.get("worst_token_cosine") for row in (brief, full))
    if short is None or whole is None or not brief.get("depth") or full.get("depth"):
        return None
    run, _, layers = str(brief["depth"]).partition(" of ")
    expected = (1 - short) * int(layers) / int(run)
    return round((1 - whole) / expected, 2) if expected > 0 else None


def _of_family(name: str, ones: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    errors = [one["extrapolation"] for one in ones if one["extrapolation"] is not None]
    passing = [one for one in ones if one["passes"]]
    return {
        "family": name,
        "groups": len(ones),
        "passing": len(passing),
        "rows": sum(one["rows"] for one in passing),
        "downloads": sum(one["downloads"] for one in passing),
        "extrapolation": max(errors, default=None),
    }


def full_figures(found: Mapping[str, Any]) -> Iterable[Figure]:
    """The share of the downloads that passes at the full tier; not measured while no group has been run."""
    share = 100 * found["downloads"] / max(found["of_downloads"], 1) if found["groups"] else None
    value = None if share is None else round(share, 2)
    yield Figure("downloads passing at the full tier", value, "%", DOWNLOADS, at_least=True)


def chosen_figures(chosen: Chosen) -> Iterable[Figure]:
    """How many groups are run, and how many of those that matter are not."""
    yield Figure("groups for the full tier", len(chosen.rows), "", 1.0, at_least=True)
    yield Figure("groups that matter and did not pass at the sweep tier", chosen.not_passing, "", 0.0)
    yield Figure("groups whose full depth does not fit", chosen.too_big, "", None)


def extrapolation_figures(found: Mapping[str, Any]) -> Iterable[Figure]:
    """Measured over extrapolated error of full depth: above 1 the sweep tier is too hopeful."""
    errors = found["extrapolation"]
    middle, worst = (round(statistics.median(errors), 2), max(errors)) if errors else (None, None)
    yield Figure("error at full depth over the extrapolated one, median", middle, "x", None, tuple(errors))
    yield Figure("error at full depth over the extrapolated one, highest", worst, "x", None)


def full_table(found: Mapping[str, Any]) -> Table:
    """The section as a table of the report."""
    text = (
        "Every oracle at full depth; other groups have the sweep tier's verdict above. The last column is the largest "
        "error over the one that few layers let expect."
    )
    columns = ("family", "groups", "passing", "rows", "downloads", "error over extrapolated")
    shares = [{**row, "downloads": _share(row["downloads"], found["of_downloads"])} for row in found["by_family"]]
    rows = tuple(tuple("-" if value is None else value for value in row.values()) for row in shares)
    return Table("Full tier by family", text, columns, rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"
