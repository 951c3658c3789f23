"""/models and /coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel
from pydantic_core import to_json

from api import standing
from api.model_filter import cursor_of
from api.model_list import as_csv, as_jsonl, every_item, items_of, next_cursor, page_of
from api.presentation import model_details
from api.rest import PREFIX
from api.rest.query import documented, query_of
from api.rest.schemas import Coverage, CoverageQuery, ExportQuery, ModelDetails, ModelsPage, ModelsQuery, ProfileQuery
from api.security.identity import Reader, reader
from pipeline.database.facts import is_demo
from pipeline.database.unit_of_work import looking, reading
from pipeline.settings import get_settings
from pipeline.sweeps.coverage import coverage


class CoveragePoint(BaseModel):
    """How many models passed at the end of a day (UTC), with their own and with synthetic weights."""

    day: str
    passing_real: int
    passing_synthetic: int


class CoverageHistory(BaseModel):
    """Coverage at the end of each day on which it changed, oldest first; `demo` says that it means nothing."""

    profile: str
    demo: bool
    points: list[CoveragePoint]


class ExportForm(NamedTuple):
    """How an export is written."""

    media_type: str
    write: Callable[[Iterator[dict[str, Any]]], Iterator[bytes]]


EXPORT_FORMS = {
    "csv": ExportForm("text/csv; charset=utf-8", as_csv),
    "jsonl": ExportForm("application/jsonl", as_jsonl),
}
EXPORTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {form.media_type.split(";")[0]: {"schema": {"type": "string"}} for form in EXPORT_FORMS.values()}}
}
router = APIRouter(prefix=PREFIX, tags=["models"])


@router.get("/models", response_model=ModelsPage, openapi_extra=documented(ModelsQuery))
def list_models(request: Request) -> Response:
    """Models, most downloaded first (or by name), in pages."""
    query = query_of(request, ModelsQuery)
    reader(request)  # here and not as a dependency, which would cost a second thread's turn
    profile = query.profile or get_settings().profile
    wanted = query.wanted
    after = cursor_of(query.cursor, wanted) if query.cursor else None
    with looking() as session:
        rows = page_of(session, profile, wanted, after, query.limit + 1)
    items = list(items_of(rows[: query.limit], profile))
    return as_json({"profile": profile, "models": items, "next": next_cursor(rows, query.limit, wanted)})


@router.get("/models/export", response_class=StreamingResponse, responses=EXPORTS)
def export_models(_caller: Reader, query: Annotated[ExportQuery, Query()]) -> StreamingResponse:
    """Every model the filters let through, as CSV (formulas made harmless) or JSON Lines."""
    profile = query.profile or get_settings().profile
    form = EXPORT_FORMS[query.format]
    name = f"models-{profile}.{query.format}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(form.write(every_item(profile, query.wanted)), media_type=form.media_type, headers=headers)


def as_json(body: Any) -> Response:
    """An answer that is not validated again: for lists, where that would cost more than the query."""
    return Response(to_json(body), media_type="application/json")


@router.get("/models/{model:path}", response_model=ModelDetails)
def get_model(
    _caller: Reader, model: Annotated[str, Path(max_length=200)], query: Annotated[ProfileQuery, Query()]
) -> dict[str, Any]:
    """One model: where it stands, what fails and where in its code, and its runs."""
    with reading() as session:
        return model_details(session, model, query.profile or get_settings().profile)


@router.get("/coverage", response_model=Coverage, openapi_extra=documented(CoverageQuery))
def get_coverage(request: Request) -> Response:
    """How many models are supported and passing, by count and by downloads, real and synthetic weights apart."""
    query = query_of(request, CoverageQuery)
    reader(request)
    with looking() as session:
        return as_json(coverage(session, query.profile or get_settings().profile, query.by))


@router.get("/coverage/history", response_model=CoverageHistory)
def get_coverage_history(_caller: Reader, query: Annotated[ProfileQuery, Query()]) -> dict[str, Any]:
    """Coverage over time: every day on which a verdict changed."""
    profile = query.profile or get_settings().profile
    with reading() as session:
        found, demo = standing.coverage_over_time(session, profile), is_demo(session)
    points = [{"day": p.day, "passing_real": p.real, "passing_synthetic": p.synthetic} for p in found]
    return {"profile": profile, "demo": demo, "points": points}
