"""What keeps models from passing: causes ranked, and the cheapest sets to mend next."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.pages.rendering import render
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.ranking.service import ranking
from pipeline.settings import get_settings

router = APIRouter()
SHOWN_CAUSES = 100


@router.get("/ops")
def show_operations(request: Request, _caller: Reader) -> Response:
    """The ranking that the command `ops` prints."""
    with reading() as session:
        report = ranking(session, get_settings().profile)
    causes = report["ops"]
    left_off = max(len(causes) - SHOWN_CAUSES, 0)
    return render(request, "operations.html", report=report, causes=causes[:SHOWN_CAUSES], left_off=left_off)
