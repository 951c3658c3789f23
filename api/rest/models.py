"""/models and /coverage."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from api import repository
from api.cursors import Cursor, decode
from api.presentation import model_details, model_item
from api.rest import PREFIX
from api.rest.schemas import Coverage, CoverageQuery, ModelDetails, ModelsPage, ModelsQuery, ProfileQuery
from api.security.identity import Reader
from pipeline.database.unit_of_work import reading
from pipeline.settings import get_settings
from pipeline.sweeps.coverage import coverage

router = APIRouter(prefix=PREFIX, tags=["models"])


@router.get("/models", response_model=ModelsPage)
def list_models(_caller: Reader, query: Annotated[ModelsQuery, Query()]) -> dict[str, Any]:
    """Models, most downloaded first (or by name), in pages."""
    profile = query.profile or get_settings().profile
    after = decode(query.cursor, query.sort) if query.cursor else None
    narrow = repository.Narrow(search=query.search)
    how: dict[str, Any] = {"narrow": narrow, "outcome": query.outcome, "sort": query.sort}
    with reading() as session:
        rows = repository.list_models(session, profile, after=after, limit=query.limit + 1, **how)
        shown = rows[: query.limit]
        items = [model_item(session, row) for row in shown]
    return {"profile": profile, "models": items, "next": next_cursor(rows, query.limit, query.sort)}


def next_cursor(rows: list[repository.ModelRow], limit: int, sort: str) -> str | None:
    """The cursor after the first `limit` of `rows`; None if there are no more."""
    if len(rows) <= limit:
        return None
    last = rows[limit - 1].model
    return Cursor(sort, last.name if sort == "name" else last.downloads, last.id).encode()


@router.get("/models/{model:path}", response_model=ModelDetails)
def get_model(
    _caller: Reader, model: Annotated[str, Path(max_length=200)], query: Annotated[ProfileQuery, Query()]
) -> dict[str, Any]:
    """One model: where it stands, what fails and where in its code, and its runs."""
    with reading() as session:
        return model_details(session, model, query.profile or get_settings().profile)


@router.get("/coverage", response_model=Coverage)
def get_coverage(_caller: Reader, query: Annotated[CoverageQuery, Query()]) -> dict[str, Any]:
    """How many models are supported and passing, by count and by downloads, real and synthetic weights apart."""
    with reading() as session:
        return coverage(session, query.profile or get_settings().profile, query.by)
