"""/runs: one execution of one stage, with its evidence."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from api import repository
from api.presentation import run_item
from api.rest import PREFIX
from api.rest.schemas import RunDetails
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading

router = APIRouter(prefix=PREFIX, tags=["runs"])


@router.get("/runs/{number}", response_model=RunDetails)
def get_run(_caller: Reader, number: Annotated[int, Path(ge=1, le=2**31 - 1)]) -> dict[str, Any]:
    """One run: its failures, measurements, evidence and versions."""
    with reading() as session:
        run = repository.get_run(session, number)
        extra = {name: getattr(run, name) for name in ("profile", "request_id", "evidence", "versions", "peak_rss_mb")}
        return {**run_item(run), **extra}
