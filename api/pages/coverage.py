"""Coverage in parts: by family, operation or release, with both weightings, and families against device profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.pages.charts import coverage_bar
from api.pages.rendering import render
from api.security.identity import Reader
from api.standing import FamilyCell, families_by_profile
from pipeline.database.unit_of_work import reading
from pipeline.settings import get_settings
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.schemas import GroupBy

router = APIRouter()
GROUPINGS: dict[GroupBy, str] = {
    "family": "Family",
    "op": "Failing operation",
    "release": "Adapter",
    "profile": "Device profile",
}
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
        cells = families_by_profile(session)
    profiles = sorted({cell.profile for cell in cells})
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
        heat=heat_map(cells, profiles),
    )


def heat_map(
    cells: Sequence[FamilyCell], profiles: Sequence[str], limit: int = SHOWN_GROUPS
) -> list[tuple[str, list[Cell]]]:
    """A row per family, most downloaded first, with a cell per profile."""
    known = {(cell.family, cell.profile): cell for cell in cells}
    families = list(dict.fromkeys(cell.family for cell in cells))[:limit]
    return [(family, [_cell(known.get((family, profile))) for profile in profiles]) for family in families]


def _cell(found: FamilyCell | None) -> Cell:
    if found is None:
        return Cell(0, 0, None)
    return Cell(found.passing, found.total, round(HEAT_STEPS * found.passing / found.total))
