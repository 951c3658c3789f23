"""Templates to answers: every page gets the same frame (who is logged in, demo mark, what waits, the profile)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from api.pages import labels
from api.repository import review_load
from api.security.identity import bind_form, form_token, identify, is_open
from pipeline.database.facts import is_demo
from pipeline.database.unit_of_work import reading
from pipeline.errors import FactoryError
from pipeline.settings import get_settings

MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class StaticFile(NamedTuple):
    """A file of ours that pages load; `version` changes with its content."""

    content: bytes
    media_type: str
    version: str


@lru_cache(maxsize=1)
def static_files() -> dict[str, StaticFile]:
    """Every static file by name; anything else in the folder is not served."""
    found = {}
    for item in files("api").joinpath("static").iterdir():
        suffix = item.name[item.name.rfind(".") :]
        if suffix in MEDIA_TYPES:
            content = item.read_bytes()
            found[item.name] = StaticFile(content, MEDIA_TYPES[suffix], hashlib.sha256(content).hexdigest()[:12])
    return found


def static_url(name: str) -> str:
    """The address of a static file; it changes when the content does, so browsers may keep it."""
    return f"/static/{name}?v={static_files()[name].version}"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The template environment: everything is escaped, an undefined name is an error."""
    found = Environment(
        loader=PackageLoader("api"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= labels.FILTERS
    found.globals |= {"static_url": static_url, **labels.GLOBALS}
    return found


def compile_templates() -> None:
    """Compile all of them: otherwise the first answer that needs one waits for it."""
    for name in environment().list_templates():
        environment().get_template(name)


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """The page, in the frame."""
    frame = frame_of(request)
    content = environment().get_template(template).render(**frame, **context)
    response = HTMLResponse(content, status)
    bind_form(request, response)
    return response


def frame_of(request: Request) -> dict[str, Any]:
    """What every page shows; a page that explains an error shows what can be had of it."""
    frame: dict[str, Any] = {"path": request.url.path, "profile": get_settings().profile, "caller": None}
    frame |= {"demo": False, "waiting_count": 0, "csrf": "", "may_request": False}
    try:
        caller = identify(request)
        with reading() as session:
            frame |= {"demo": is_demo(session), "waiting_count": review_load(session).waiting}
    except FactoryError:
        return frame
    may_request = is_open(request) if not caller.is_known else "requester" in caller.roles
    return frame | {"caller": caller, "csrf": form_token(request, caller), "may_request": may_request}
