"""Sweeps: the list and one sweep with a row per model."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from api import repository, standing, sweep_rows
from api.cursors import Cursor, decode
from api.pages.overview import funnel_rows, progress_of
from api.pages.rendering import render
from api.rest.schemas import Strict
from api.security.identity import Reader
from pipeline.database.unit_of_work import database_now, reading
from pipeline.sweeps.comparison import CHANGES
from pipeline.sweeps.repository import get_sweep, list_sweeps

router = APIRouter()
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
Chosen = Annotated[int, Field(ge=1, le=2**31 - 1)]
PAGE_ROWS = 100


@router.get("/sweeps")
def show_sweeps(request: Request, _caller: Reader) -> Response:
    """The newest sweeps; those of requests are on the requests' pages."""
    with reading() as session:
        rows = [(sweep, repository.sweep_progress(session, sweep.id)) for sweep in list_sweeps(session)]
    return render(request, "sweeps.html", rows=rows)


class ComparisonQuery(Strict):
    """Which sweeps, and which of their changes; it lives in the address."""

    first: Chosen
    second: Chosen
    change: Literal["", "new", "persisting", "fixed", "entered", "left", "undecided"] = ""
    after: Annotated[str, Field(max_length=600)] = ""


@router.get("/sweeps/compare")
def show_comparison(request: Request, _caller: Reader, query: Annotated[ComparisonQuery, Query()]) -> Response:
    """What fails newly, what still fails, what was mended between two sweeps: counts, and models in pages."""
    after = decode(query.after, CHANGES, int) if query.after else None
    kept = request.app.state.kept
    with reading() as session:
        first, second = get_sweep(session, query.first), get_sweep(session, query.second)
        count = partial(sweep_rows.compare_counts, session, first, second)
        compared = kept.get(session, f"compared {first.id} {second.id}", count).value
        found = sweep_rows.compare_page(session, first, second, query.change or None, after, PAGE_ROWS + 1)
        rows = found[:PAGE_ROWS]
        reasons = sweep_rows.reasons_of(session, first, second, rows)
        numbers = [sweep.id for sweep in list_sweeps(session)]
    last = rows[-1] if len(found) > PAGE_ROWS else None
    context: dict[str, Any] = {"first": first, "second": second, "compared": compared, "query": query}
    context |= {"rows": rows, "reasons": reasons, "numbers": numbers}
    following = Cursor(last.change, last.downloads, last.model_id).encode() if last else None
    return render(request, "comparison.html", following=following, **context)


class SweepQuery(Strict):
    """Where the page of models begins."""

    after: Annotated[str, Field(max_length=600)] = ""


@router.get("/sweeps/{number}")
def show_sweep(request: Request, _caller: Reader, number: Number, query: Annotated[SweepQuery, Query()]) -> Response:
    """One sweep: how far it is, its funnel, its models in pages."""
    after = decode(query.after, (sweep_rows.POSITION,), int) if query.after else None
    kept = request.app.state.kept
    with reading() as session:
        sweep = get_sweep(session, number)
        progress, pace = progress_of(session, sweep, database_now(session))
        funnel = kept.get(session, f"funnel {number}", lambda: standing.funnel(session, sweep)).value
        executed = kept.get(session, f"executed {number}", lambda: standing.executed(session, sweep)).value
        found = sweep_rows.sweep_page(session, sweep, after, PAGE_ROWS + 1)
        context: dict[str, Any] = {"sweep": sweep, "executed": executed}
    rows = [row for _, row in found[:PAGE_ROWS]]
    place = found[PAGE_ROWS - 1][0] if len(found) > PAGE_ROWS else None
    context |= {"rows": rows, "query": query, "progress": progress, "pace": pace, "funnel": funnel_rows(funnel)}
    following = Cursor(sweep_rows.POSITION, place, 0).encode() if place is not None else None
    return render(request, "sweep.html", following=following, **context)
