"""/sweeps."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy.orm import Session

from api import repository
from api.events import EVENTS, follow
from api.rest import PREFIX
from api.rest.requests import LastEventId
from api.rest.schemas import ComparisonQuery, SweepAnswer, SweepComparison, Sweeps
from api.security.identity import Reader
from pipeline.database.events import stream_of
from pipeline.database.unit_of_work import reading
from pipeline.sweeps.comparison import compare_sweeps
from pipeline.sweeps.models import SweepState
from pipeline.sweeps.repository import get_sweep as find_sweep
from pipeline.sweeps.repository import list_sweeps
from pipeline.sweeps.service import sweep_report

router = APIRouter(prefix=PREFIX, tags=["sweeps"])


SweepNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/sweeps", response_model=Sweeps)
def get_sweeps(_caller: Reader) -> dict[str, Any]:
    """The newest sweeps."""
    with reading() as session:
        return {
            "sweeps": [
                {
                    "sweep": sweep.id,
                    "profile": sweep.profile,
                    "state": sweep.state,
                    "source": sweep.snapshot.source,
                    "top": sweep.top,
                    "created_at": sweep.created_at,
                    "finished_at": sweep.finished_at,
                }
                for sweep in list_sweeps(session)
            ]
        }


@router.get("/sweeps/compare", response_model=SweepComparison)
def get_comparison(_caller: Reader, query: Annotated[ComparisonQuery, Query()]) -> dict[str, Any]:
    """Two sweeps side by side: failing newly, still, or no longer."""
    with reading() as session:
        return compare_sweeps(session, query.first, query.second)


@router.get("/sweeps/{number}", response_model=SweepAnswer)
def get_sweep(_caller: Reader, number: SweepNumber) -> dict[str, Any]:
    """A sweep: a row per model, the funnel, and how far it is."""
    with reading() as session:
        report = sweep_report(session, number)
        progress = repository.sweep_progress(session, number)
    return {**report, "runs_done": progress.done, "runs_known": progress.total}


@router.get("/sweeps/{number}/events", response_class=Response, responses=EVENTS)
def get_events(caller: Reader, request: Request, number: SweepNumber, last_event_id: LastEventId = 0) -> Response:
    """What happens in a sweep, as Server-Sent Events, from its beginning or from after `Last-Event-ID`."""

    def has_ended(session: Session) -> bool:
        return find_sweep(session, number).state != SweepState.RUNNING

    return follow(request, caller, stream_of("sweep", number), last_event_id, has_ended)
