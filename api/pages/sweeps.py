"""Sweeps: the list and one sweep with a row per model."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from api import repository, standing
from api.pages.overview import funnel_rows
from api.pages.rendering import render
from api.security.identity import Reader
from pipeline.database.unit_of_work import database_now, reading
from pipeline.sweeps.comparison import CHANGES, compare_sweeps
from pipeline.sweeps.repository import get_sweep, list_sweeps
from pipeline.sweeps.service import sweep_report

router = APIRouter()
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
Chosen = Annotated[int, Query(ge=1, le=2**31 - 1)]
SHOWN_MODELS = 500


@router.get("/sweeps")
def show_sweeps(request: Request, _caller: Reader) -> Response:
    """The newest sweeps; those of requests are on the requests' pages."""
    with reading() as session:
        rows = [(sweep, repository.sweep_progress(session, sweep.id)) for sweep in list_sweeps(session)]
    return render(request, "sweeps.html", rows=rows)


@router.get("/sweeps/compare")
def show_comparison(request: Request, _caller: Reader, first: Chosen, second: Chosen) -> Response:
    """What fails newly, what still fails, what was mended between two sweeps."""
    with reading() as session:
        found = compare_sweeps(session, first, second)
        numbers = [sweep.id for sweep in list_sweeps(session)]
    rows = sorted(found["models"], key=lambda row: CHANGES.index(row["change"]))
    left_off = max(len(rows) - SHOWN_MODELS, 0)
    return render(request, "comparison.html", found=found, rows=rows[:SHOWN_MODELS], left_off=left_off, numbers=numbers)


@router.get("/sweeps/{number}")
def show_sweep(request: Request, _caller: Reader, number: Number) -> Response:
    """One sweep."""
    with reading() as session:
        sweep, report = get_sweep(session, number), sweep_report(session, number)
        progress = repository.sweep_progress(session, number)
        pace = standing.pace_of(session, sweep, progress.total - progress.done, database_now(session))
    context: dict[str, Any] = {"sweep": sweep, "progress": progress, "pace": pace, "report": report}
    context["funnel"] = funnel_rows(report["funnel"])
    shown = report["models"][:SHOWN_MODELS]
    return render(request, "sweep.html", rows=shown, left_off=len(report["models"]) - len(shown), **context)
