"""What fails in a model, as its page shows it: source lines, what could mend it, a script that shows it, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from api.pages.sources import Excerpt, stock_excerpt
from api.presentation import script_in
from pipeline.diagnosis.pictures import curve_rows, error_curve
from pipeline.diagnosis.unsearched import sentence
from pipeline.work.models import DiagnosisRow, Run, RunState, StageName

HEAT_STEPS = 5
SHOWN_EXCERPTS = 12


class Finding(NamedTuple):
    """One failure with the stock code around its line and, where it was diagnosed, patterns and a script."""

    failure: dict[str, Any]
    excerpt: Excerpt | None
    patterns: list[str]
    no_patch: str | None
    script_of: int | None
    """The number of the diagnosis whose script can be downloaded."""


class Curve(NamedTuple):
    """The error per layer: a picture, the table beside it, and the run that measured it."""

    picture: Markup
    rows: list[dict[str, Any]]
    run: int


class HeatCell(NamedTuple):
    """How often an operation fails in one module; `heat` is 0 (nowhere) to HEAT_STEPS."""

    times: int
    heat: int


class OpMap(NamedTuple):
    """Operations (rows) against modules (columns)."""

    modules: list[str]
    rows: list[tuple[str, list[HeatCell]]]


def findings(failures: Sequence[dict[str, Any]], run: Run | None) -> list[Finding]:
    """The failures, each with what the diagnosis `run` says of it."""
    said = {_key(row.data["failure"]): row for row in (run.diagnoses if run else ())}
    return [_finding(n, failure, said.get(_key(failure))) for n, failure in enumerate(failures)]


def _key(failure: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (str(failure["kind"]), failure["op"], failure["source"], failure["module"])


def _finding(number: int, failure: dict[str, Any], row: DiagnosisRow | None) -> Finding:
    excerpt = stock_excerpt(failure["source"]) if number < SHOWN_EXCERPTS else None
    if row is None:
        return Finding(failure, excerpt, [], None, None)
    patterns = list(dict.fromkeys(use["pattern"] for use in row.data["patterns"]))
    return Finding(failure, excerpt, patterns, row.no_patch, row.id if script_in(row) else None)


def newest_diagnosis(runs: Sequence[Run]) -> Run | None:
    """The newest finished diagnosis among runs that are newest first."""
    return next((run for run in runs if run.stage == StageName.DIAGNOSE and run.state == RunState.DONE), None)


def curve_of(run: Run | None) -> Curve | None:
    """The error per layer that a diagnosis measured; None if it measured none."""
    curves = (run.evidence or {}).get("curves") if run else None
    if run is None or not curves or not any(curves.values()):
        return None
    return Curve(Markup(error_curve(curves)), curve_rows(curves), run.id)  # noqa: S704 - escapes every text itself


def unsearched_of(run: Run | None) -> str:
    """Where a diagnosis could not look for silent causes, and why; empty if it could everywhere."""
    said = sentence((run.evidence or {}).get("unsearched") or ()) if run else ""
    return said[:1].upper() + said[1:]


def op_map(failures: Sequence[Mapping[str, Any]]) -> OpMap | None:
    """Where which operation fails; None if that is one place only."""
    modules = list(dict.fromkeys(str(f["module"] or "whole model") for f in failures))
    ops = list(dict.fromkeys(str(f["op"] or "whole model") for f in failures))
    if len(modules) * len(ops) < 2:
        return None
    counts: dict[tuple[str, str], int] = {}
    for failure in failures:
        place = (str(failure["op"] or "whole model"), str(failure["module"] or "whole model"))
        counts[place] = counts.get(place, 0) + int(failure["count"])
    most = max(counts.values())
    rows = [(op, [_heat(counts.get((op, module), 0), most) for module in modules]) for op in ops]
    return OpMap(modules, rows)


def _heat(count: int, most: int) -> HeatCell:
    return HeatCell(count, max(1, round(HEAT_STEPS * count / most)) if count else 0)
