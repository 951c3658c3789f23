"""/blind-reviews: what reviewers say of candidates whose truth is known, and how they agree."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel

from api.rest import PREFIX
from api.rest.schemas import Reason, Strict
from api.security.identity import Decider, Reader, principal_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review import blind
from pipeline.review.models import BlindAnswer

router = APIRouter(prefix=PREFIX, tags=["reviews"])
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


class BlindCandidate(BaseModel):
    """A candidate as it is shown: what its patches do and claim, nothing of what was measured or decided."""

    id: int
    family: str
    profile: str
    dtype: str
    patches: list[dict[str, Any]]


class BlindBody(Strict):
    """What the reviewer would decide, and why."""

    answer: BlindAnswer
    reason: Reason


class Answered(BaseModel):
    """The answer that counts, and the truth."""

    candidate: int
    answer: BlindAnswer
    known_bad: bool


class BlindFigures(BaseModel):
    """Bad candidates caught and let through, good ones kept and refused; a share is null where none was answered."""

    bad_caught: int
    bad_let_through: int
    good_kept: int
    good_refused: int
    let_through: float | None


class ReviewerFigures(BlindFigures):
    """The figures of one reviewer."""

    reviewer: str


class Agreement(BlindFigures):
    """The figures of all; `agree` is the share of equal answers among `pairs` of reviewers on one candidate."""

    reviewers: list[ReviewerFigures]
    pairs: int
    agree: float | None


@router.get("/blind-reviews/next", response_model=BlindCandidate, responses={204: {"description": "None is left"}})
def get_next(caller: Decider) -> Any:
    """A candidate that the gate refused or that was released, without saying which."""
    with reading() as session:
        found = blind.next_blind(session, principal_of(session, caller))
    return found if found is not None else Response(status_code=204)


@router.post("/blind-reviews/{number}", response_model=Answered)
def post_answer(caller: Decider, number: Number, body: BlindBody) -> dict[str, Any]:
    """Say what you would decide; the first answer counts. The truth is told then."""
    with unit_of_work() as session:
        row = blind.answer(session, number, principal_of(session, caller), body.answer, body.reason)
        return {"candidate": row.candidate_id, "answer": row.answer, "known_bad": row.known_bad}


@router.get("/blind-reviews/agreement", response_model=Agreement)
def get_agreement(_caller: Reader) -> dict[str, Any]:
    """How reviewers judge candidates whose truth is known, and how often two of them agree."""
    with reading() as session:
        return blind.agreement(session)
