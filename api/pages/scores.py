"""How good the verifier and the drafters are, and what drafting costs: published, or said not to be measured."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api import standing
from api.pages.overview import costs
from api.pages.rendering import render
from api.rest.bench import unmeasured
from api.security.identity import Reader
from pipeline.bench.scores import score_table
from pipeline.database.unit_of_work import database_now, reading
from pipeline.settings import get_settings
from pipeline.verification.selftest.stored import last_report

router = APIRouter()
SHOWN_DAYS, SHOWN_DRAFTS = 30, 50


@router.get("/scores")
def show_scores(request: Request, _caller: Reader) -> Response:
    """Error rates by class, scores by drafter and pattern, costs by day and by draft."""
    settings = get_settings()
    with reading() as session:
        scores = score_table(session)
        context: dict[str, Any] = {
            "scores": scores,
            "unmeasured": unmeasured(scores, settings.llm_model),
            "spent": costs(session, database_now(session)),
            "days": standing.spent_by_day(session, SHOWN_DAYS),
            "drafts": standing.newest_trajectories(session, SHOWN_DRAFTS),
        }
    return render(request, "scores.html", gate=last_report(settings.data_dir), settings=settings, **context)
