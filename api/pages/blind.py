"""Blind reviews: a candidate whose truth is known, shown without its evidence, and how reviewers judged such ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field
from sqlalchemy.orm import Session

from api import repository
from api.pages.rendering import render
from api.pages.reviews import Number, patch_view
from api.rest.schemas import Reason, RowId, Strict
from api.security.identity import Caller, Decider, Reader, check_form, principal_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review import blind
from pipeline.review.models import BlindAnswer
from pipeline.review.repository import get_candidate

router = APIRouter()


class BlindQuery(Strict):
    """`answered` is the candidate that was judged last: its truth is told."""

    answered: RowId | None = None


class BlindForm(Strict):
    """What a reviewer would decide, and why."""

    csrf: Annotated[str, Field(max_length=200)] = ""
    answer: BlindAnswer
    reason: Reason


@router.get("/blind")
def show_blind(request: Request, caller: Reader, query: Annotated[BlindQuery, Query()]) -> Response:
    """The next candidate to judge, the truth of the last one, and how reviewers judged so far."""
    with reading() as session:
        shown = _next(session, caller) if caller.can_review else None
        truth = _truth(session, caller, query.answered) if query.answered and caller.is_known else None
        figures = blind.agreement(session)
    return render(request, "blind.html", c=shown, told=truth, figures=figures)


@router.post("/blind/{number}")
def judge(request: Request, caller: Decider, number: Number, form: Annotated[BlindForm, Form()]) -> Response:
    """Keep what the reviewer would decide; then the truth is shown, and the next one."""
    check_form(request, caller, form.csrf)
    with unit_of_work() as session:
        blind.answer(session, number, principal_of(session, caller), form.answer, form.reason)
    return RedirectResponse(f"/blind?answered={number}", 303)


def _next(session: Session, caller: Caller) -> dict[str, Any] | None:
    found = blind.next_blind(session, principal_of(session, caller))
    if found is None:
        return None
    causes = repository.diagnoses_of_candidate(session, get_candidate(session, found["id"]))
    patches = [
        patch_view({"model": None, **p, "position": n}, causes, None) for n, p in enumerate(found["patches"], start=1)
    ]
    return {**found, "patches": patches}


def _truth(session: Session, caller: Caller, number: int) -> dict[str, Any] | None:
    row = blind.answer_of(session, number, principal_of(session, caller))
    if row is None:
        return None
    right = row.known_bad == (row.answer == BlindAnswer.REJECT)
    return {"candidate": number, "known_bad": row.known_bad, "answer": row.answer, "right": right}
