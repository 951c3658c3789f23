"""/sweeps."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from api import repository
from api.rest import PREFIX
from api.rest.schemas import SweepAnswer
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.sweeps.service import sweep_report

router = APIRouter(prefix=PREFIX, tags=["sweeps"])


@router.get("/sweeps/{number}", response_model=SweepAnswer)
def get_sweep(_caller: Reader, number: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> dict[str, Any]:
    """A sweep: a row per model, the funnel, and how far it is."""
    with reading() as session:
        report = sweep_report(session, number)
        progress = repository.sweep_progress(session, number)
    return {**report, "runs_done": progress.done, "runs_known": progress.total}
