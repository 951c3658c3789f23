"""Adapters: the list, one adapter with its manifest, withdrawal."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from api import repository
from api.pages.rendering import render
from api.pages.sources import pattern_source
from api.presentation import adapter_item
from api.rest.schemas import Strict
from api.security.identity import Decider, Reader, check_form, principal_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.releases.repository import get_adapter, list_adapters
from pipeline.review.service import withdraw_adapter

router = APIRouter()
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


class WithdrawForm(Strict):
    """Why an adapter is taken back."""

    csrf: Annotated[str, Field(max_length=200)] = ""
    reason: Annotated[str, Field(max_length=4_000)] = ""


@router.get("/adapters")
def show_adapters(request: Request, _caller: Reader) -> Response:
    """Every adapter, newest first."""
    with reading() as session:
        served = repository.served_by_adapters(session)
        rows = [{**adapter_item(a), "served": served.get(a.id, 0)} for a in list_adapters(session)]
    return render(request, "adapters.html", rows=rows)


@router.get("/adapters/{number}")
def show_adapter(request: Request, _caller: Reader, number: Number) -> Response:
    """One adapter: what it changes, whom it serves, its manifest."""
    with reading() as session:
        adapter = adapter_item(get_adapter(session, number))
        served = [status.checkpoint.model for status in repository.statuses_with_adapter(session, number)]
    patches = [
        {**patch, "source": pattern_source(patch["pattern"], patch.get("parameters") or {})}
        for patch in adapter["manifest"].get("patches", ())
    ]
    return render(request, "adapter.html", adapter=adapter, served=served, patches=patches)


@router.post("/adapters/{number}/withdraw")
def withdraw(request: Request, caller: Decider, number: Number, form: Annotated[WithdrawForm, Form()]) -> Response:
    """Take an adapter back; the models it served run again without it."""
    check_form(request, caller, form.csrf)
    with unit_of_work() as session:
        withdraw_adapter(session, number, principal_of(session, caller), reason=form.reason)
    return RedirectResponse(f"/adapters/{number}", 303)
