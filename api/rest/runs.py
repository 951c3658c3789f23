"""/runs: one execution of one stage, with its evidence; /diagnoses: the scripts of what a diagnosis found."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from api import repository
from api.presentation import reproducer_of, run_item
from api.rest import PREFIX
from api.rest.adapters import PYTHON, Number, download
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


@router.get(
    "/diagnoses/{number}/reproducer", response_class=Response, responses={200: {"content": {"text/x-python": {}}}}
)
def get_reproducer(_caller: Reader, number: Number) -> Response:
    """The script that shows one failure on its own, as a download; 404 where none failed the same way."""
    with reading() as session:
        return download(reproducer_of(session, number).encode(), PYTHON, f"reproducer-{number}.py")
