"""The request form and a request's page."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from api import repository
from api.pages.rendering import render
from api.presentation import request_answer
from api.rest.requests import make_request
from api.rest.schemas import MODEL_ID, HubId, NewRequest, Strict, Text
from api.security.identity import Reader, Requester, check_form
from pipeline.database.unit_of_work import reading
from pipeline.requests.repository import list_requests
from pipeline.settings import get_settings

router = APIRouter()
SHOWN = 20


class RequestForm(Strict):
    """What the form sends; `key` makes a form that is sent twice one request."""

    model: HubId
    note: Text = ""
    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$")]
    csrf: Annotated[str, Field(max_length=200)] = ""


@router.get("/requests")
def show_requests(request: Request, _caller: Reader, model: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The form, and the newest requests."""
    workers = get_settings().workers
    with reading() as session:
        rows = [request_answer(session, row.id, workers) for row in list_requests(session, SHOWN)]
    return render(request, "requests.html", rows=rows, wanted=model, key=secrets.token_urlsafe(24), pattern=MODEL_ID)


@router.post("/requests")
def send_request(request: Request, caller: Requester, form: Annotated[RequestForm, Form()]) -> Response:
    """Make the request; then its page shows how far it is."""
    check_form(request, caller, form.csrf)
    answer = make_request(caller, NewRequest(model=form.model, note=form.note), form.key, "POST /requests")
    return RedirectResponse(answer.body["page"], 303)


@router.get("/requests/{request_id}")
def show_request(request: Request, _caller: Reader, request_id: Annotated[str, Path(max_length=36)]) -> Response:
    """How far a request is, stage by stage."""
    with reading() as session:
        answer = request_answer(session, request_id, get_settings().workers)
        runs = repository.runs_of_request(session, request_id)
    live = answer["state"] in ("queued", "running")
    return render(request, "request.html", answer=answer, runs=runs, live=live)
