"""What keeps models from passing: causes ranked, and the cheapest sets to mend next."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy.orm import Session

from api import repository
from api.kept import Counted, Kept
from api.pages.rendering import render
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.ranking.service import ranking
from pipeline.settings import get_settings

router = APIRouter()
SHOWN_CAUSES = 100
AT_ONCE = 2_000
"""With more models in the catalogue, the sets are searched beside the request: that takes a second or more."""


@router.get("/ops")
def show_operations(request: Request, _caller: Reader) -> Response:
    """The ranking that the command `ops` prints."""
    with reading() as session:
        found = kept_ranking(session, get_settings().profile, request.app.state.kept)
    report = found.value if found else None
    causes = report["ops"] if report else []
    left_off = max(len(causes) - SHOWN_CAUSES, 0)
    context: dict[str, Any] = {"report": report, "counted_at": found.at if found else None}
    return render(request, "operations.html", causes=causes[:SHOWN_CAUSES], left_off=left_off, **context)


def kept_ranking(session: Session, profile: str, kept: Kept) -> Counted | None:
    """The ranking with its cheapest sets; None while that of a large database is searched for the first time."""
    name = f"ranking {profile}"
    if repository.count_listed(session) <= AT_ONCE:
        return kept.get(session, name, lambda: ranking(session, profile))
    return kept.soon(session, name, lambda own: ranking(own, profile))
