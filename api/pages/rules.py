"""Proposed rules: what accepted patches of language models are uses of, and decisions on them by form."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from api.pages.rendering import render
from api.pages.reviews import DecisionForm, Number
from api.rest.schemas import ReviewsQuery
from api.security.identity import Decider, Reader, check_form, principal_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.errors import NotFound
from pipeline.rules.models import RuleState
from pipeline.rules.repository import list_rules
from pipeline.rules.service import decide_rule, rule_item

router = APIRouter()
DECISIONS = {"accept": True, "reject": False}


@router.get("/rules")
def show_rules(request: Request, _caller: Reader, query: Annotated[ReviewsQuery, Query()]) -> Response:
    """The proposed rules that wait, with what their tests found; or all there were."""
    state = RuleState.WAITING if query.state == "waiting" else None
    with reading() as session:
        rows = [rule_item(row) for row in list_rules(session, state)]
    return render(request, "rules.html", rows=rows, state=query.state)


@router.post("/rules/{number}/{decision}")
def decide(
    request: Request, caller: Decider, number: Number, decision: str, form: Annotated[DecisionForm, Form()]
) -> Response:
    """Accept or reject what the page showed."""
    check_form(request, caller, form.csrf)
    if decision not in DECISIONS:
        raise NotFound(f"There is no decision {decision!r}.")
    with unit_of_work() as session:
        who = principal_of(session, caller)
        decide_rule(session, number, who, accept=DECISIONS[decision], seen=form.seen, reason=form.reason)
    return RedirectResponse("/rules", 303)
