"""Every page in one router; static files."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.pages import (
    adapters,
    audit,
    blind,
    coverage,
    login,
    models,
    operations,
    overview,
    profiles,
    requests,
    reviews,
    rules,
    scores,
    settings,
    sweeps,
)
from api.pages.rendering import static_files
from pipeline.errors import NotFound

KEEP = "public, max-age=31536000, immutable"
router = APIRouter()
for page in (
    overview,
    models,
    coverage,
    operations,
    requests,
    reviews,
    blind,
    rules,
    adapters,
    sweeps,
    profiles,
    scores,
    audit,
    settings,
    login,
):
    router.include_router(page.router)


@router.get("/static/{name}")
def get_static(name: str, request: Request) -> Response:
    """A style sheet, script or picture of ours; kept by browsers only under the address that names its version."""
    found = static_files().get(name)
    if found is None:
        raise NotFound(f"There is no file {name!r}.")
    tag = f'"{found.version}"'
    headers = {"ETag": tag, "Cache-Control": KEEP if request.query_params.get("v") == found.version else "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


@router.get("/favicon.ico")
def get_icon(request: Request) -> Response:
    """The icon that browsers ask for."""
    return get_static("icon.svg", request)
