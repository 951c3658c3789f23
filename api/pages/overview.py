"""The overview: how many models run, what needs a human, what blocks most, where the models stop, what is running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy.orm import Session

from api import repository
from api.pages.charts import coverage_bar
from api.pages.rendering import render
from api.security.identity import Reader
from pipeline.database.unit_of_work import database_now, reading
from pipeline.review.presentation import details_of
from pipeline.review.service import review_queue
from pipeline.settings import get_settings
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.repository import list_sweeps
from pipeline.sweeps.service import sweep_report

router = APIRouter()
FUNNEL = {
    "listed": "listed",
    "dropped": "left out, with reasons",
    "inspected": "inspected",
    "captured": "capability known",
    "executed": "executed",
    "passed": "pass",
    "waiting": "wait for review",
    "failed": "fail",
    "unknown": "unknown",
    "infra": "our fault",
}
SHOWN_CANDIDATES, SHOWN_OPS = 3, 8


@router.get("/")
def show_overview(request: Request, _caller: Reader) -> Response:
    """The first page."""
    profile = get_settings().profile
    with reading() as session:
        figures = coverage(session, profile)
        context = {
            "figures": figures,
            "passing": figures["passing_real"] + figures["passing_synthetic"],
            "bars": {"models": coverage_bar(figures), "downloads": coverage_bar(figures["by_downloads"])},
            "needs_you": _needs_you(session),
            "ops": repository.blocking_ops(session, profile, SHOWN_OPS),
            "counts": repository.count_outcomes(session, profile),
            "sweep": _newest_sweep(session),
        }
    return render(request, "overview.html", **context)


def _needs_you(session: Session) -> dict[str, Any]:
    queue = review_queue(session)
    load = repository.review_load(session)
    now = database_now(session)
    return {
        "count": load.waiting,
        "oldest_s": (now - load.oldest).total_seconds() if load.oldest else None,
        "candidates": [details_of(session, candidate) for candidate in queue[:SHOWN_CANDIDATES]],
    }


def _newest_sweep(session: Session) -> dict[str, Any] | None:
    sweeps = list_sweeps(session, limit=1)
    if not sweeps:
        return None
    sweep = sweeps[0]
    progress, report = repository.sweep_progress(session, sweep.id), sweep_report(session, sweep.id)
    return {
        "id": sweep.id,
        "state": sweep.state,
        "source": sweep.snapshot.source,
        "profile": sweep.profile,
        "created_at": sweep.created_at,
        "finished_at": sweep.finished_at,
        "progress": progress,
        "funnel": funnel_rows(report["funnel"]),
        "executed": report["executed"],
    }


def funnel_rows(funnel: Mapping[str, int]) -> list[tuple[str, int, float]]:
    """Word, count and share of what was listed (in hundredths) for each step of a funnel that has any."""
    listed = max(funnel["listed"], 1)
    return [(FUNNEL.get(k, k), v, round(100 * v / listed, 1)) for k, v in funnel.items() if v or k == "listed"]
