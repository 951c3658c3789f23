"""The audit: who decided what and why, and what happened to candidates, adapters, sweeps and requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from api import repository
from api.pages.rendering import render
from api.rest.schemas import Strict
from api.security.identity import Reader
from pipeline.database.models import OutboxEvent
from pipeline.database.unit_of_work import reading

router = APIRouter()
ROWS = 100
KINDS = {"": "everything", "candidate": "candidates", "adapter": "adapters", "sweep": "sweeps", "request": "requests"}
PAGES = {"candidate": "/review/{}", "adapter": "/adapters/{}", "sweep": "/sweeps/{}", "request": "/requests/{}"}
WORDS = {
    "review.approve": "approved",
    "review.reject": "rejected",
    "review.changes": "sent back for changes",
    "review.strike": "a patch struck",
    "review.withdraw": "withdrawn by a reviewer",
    "candidate.drafted": "drafted",
    "candidate.waiting": "waits for review",
    "candidate.refused": "refused by the gate",
    "candidate.inconclusive": "not enough evidence",
    "adapter.released": "released",
    "adapter.withdrawn": "withdrawn",
    "sweep.started": "begun",
    "sweep.finished": "ended",
    "sweep.cancelled": "cancelled",
}


class AuditQuery(Strict):
    """What is shown; it lives in the address."""

    kind: Literal["", "candidate", "adapter", "sweep", "request"] = ""
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None


@router.get("/audit")
def show_audit(request: Request, _caller: Reader, query: Annotated[AuditQuery, Query()]) -> Response:
    """Decisions with their reasons on the first page, and what happened, newest first."""
    kinds = [query.kind] if query.kind else list(PAGES)
    with reading() as session:
        events = repository.events_about(session, kinds, query.before, ROWS + 1)
        decided = repository.newest_decisions(session, ROWS) if query.before is None and not query.kind else []
    following = events[ROWS - 1].id if len(events) > ROWS else None
    rows = [_row(event) for event in events[:ROWS]]
    return render(request, "audit.html", rows=rows, decided=decided, kinds=KINDS, kind=query.kind, following=following)


def _row(event: OutboxEvent) -> dict[str, Any]:
    known = {name: value for name, value in event.payload.items() if isinstance(value, str | int | float)}
    return {
        "at": event.created_at,
        "what": WORDS.get(event.topic, event.topic.partition(".")[2].replace("_", " ")),
        "kind": event.subject_kind,
        "subject": event.subject_id,
        "page": PAGES[event.subject_kind].format(event.subject_id),
        "request": event.request_id,
        "more": ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in known.items()),
    }
