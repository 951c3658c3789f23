"""Coverage in parts: by family, operation or release, with both weightings, and families against device profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api import repository
from api.pages.charts import coverage_bar
from api.pages.rendering import render
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.settings import get_settings
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.schemas import GroupBy

router = APIRouter()
GROUPINGS: dict[GroupBy, str] = {"family": "Family", "op": "Failing operation", "release": "Adapter"}
SHOWN_GROUPS = 100
HEAT_STEPS = 5


class Cell(NamedTuple):
    """One family on one profile; `heat` is 0 (none passes) to HEAT_STEPS (all pass), None where nothing has run."""

    passing: int
    total: int
    heat: int | None


@router.get("/coverage")
def show_coverage(request: Request, _caller: Reader, by: GroupBy = "family") -> Response:
    """Coverage by one grouping, and the map of families and profiles."""
    profile = get_settings().profile
    with reading() as session:
        figures = coverage(session, profile, by)
        known = {profile: figures} if by == "family" else {}
        profiles = repository.profiles_with_verdicts(session)
        heat = heat_map({p: known.get(p) or coverage(session, p, "family") for p in profiles})
    groups = [{**group, "bar": coverage_bar(group)} for group in figures["groups"]]
    return render(
        request,
        "coverage.html",
        by=by,
        groupings=GROUPINGS,
        figures=figures,
        groups=groups[:SHOWN_GROUPS],
        left_off=max(len(groups) - SHOWN_GROUPS, 0),
        profiles=profiles,
        heat=heat,
    )


def heat_map(by_profile: Mapping[str, dict[str, Any]]) -> list[tuple[str, list[Cell]]]:
    """A row per family, most downloaded first on the first profile that has it, with a cell per profile."""
    columns = [{g["name"]: g for g in figures["groups"]} for figures in by_profile.values()]
    families = list(dict.fromkeys(name for column in columns for name in column))
    shown = [name for name in families if name != "not inspected"][:SHOWN_GROUPS]
    return [(family, [_cell(column.get(family)) for column in columns]) for family in shown]


def _cell(group: dict[str, Any] | None) -> Cell:
    if group is None:
        return Cell(0, 0, None)
    passing = group["passing_real"] + group["passing_synthetic"]
    return Cell(passing, group["total"], round(HEAT_STEPS * passing / group["total"]))
