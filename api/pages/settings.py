"""Settings of this installation as they are, and the caller's own sessions and tokens."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from api import repository
from api.errors import LoginRequired
from api.pages.rendering import render
from api.rest.schemas import Strict
from api.security.identity import Caller, Reader, check_form, principal_of
from pipeline.database.accounts import issue, revoke
from pipeline.database.models import SessionKind
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.settings import get_settings
from pipeline.work.environment import environment_of

router = APIRouter()
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
SECRET = frozenset(
    {
        "token",
        "database_url",
        "broker_url",
        "signing_key",
        "webhook_key",
        "oidc_client_secret",
        "smtp_server",
        "notify",
        "fault",
        "test_mode",
        "child_module",
    }
)
"""Settings that may hold a secret, or are for tests only: never on a page."""


class TokenForm(Strict):
    """What a new token is for."""

    label: Annotated[str, Field(min_length=1, max_length=120)]
    csrf: Annotated[str, Field(max_length=200)] = ""


class RevokeForm(Strict):
    """The form's token."""

    csrf: Annotated[str, Field(max_length=200)] = ""


@router.get("/settings")
def show_settings(request: Request, caller: Reader) -> Response:
    """What is set, and what the caller is logged in with."""
    return _page(request, caller, None)


def _page(request: Request, caller: Caller, new_token: str | None) -> Response:
    settings = get_settings()
    shown: dict[str, Any] = {k: v for k, v in settings.model_dump().items() if k not in SECRET}
    rows = []
    if caller.principal_id is not None:
        with reading() as session:
            rows = repository.sessions_of(session, caller.principal_id, database_now(session))
    versions = environment_of(settings.profile)
    return render(request, "settings.html", shown=shown, rows=rows, versions=versions, new_token=new_token)


@router.post("/settings/tokens")
def make_token(request: Request, caller: Reader, form: Annotated[TokenForm, Form()]) -> Response:
    """A bearer token of the caller's own; its secret is on this one answer only."""
    _known(request, caller, form.csrf)
    with unit_of_work() as session:
        token = issue(session, principal_of(session, caller), SessionKind.BEARER, form.label).token
    response = _page(request, caller, token)
    response.headers["Cache-Control"] = "no-store"
    return response


@router.post("/settings/sessions/{number}/revoke")
def end_session(request: Request, caller: Reader, number: Number, form: Annotated[RevokeForm, Form()]) -> Response:
    """End one of the caller's own sessions or tokens."""
    principal_id = _known(request, caller, form.csrf)
    with unit_of_work() as session:
        revoke(session, repository.own_session(session, principal_id, number))
    return RedirectResponse("/settings", 303)


def _known(request: Request, caller: Caller, csrf: str) -> int:
    """The caller's number. Raises `LoginRequired` for nobody, `FormExpired` for another session's form."""
    check_form(request, caller, csrf)
    if caller.principal_id is None:
        raise LoginRequired("Tokens belong to somebody: log in first.")
    return caller.principal_id
