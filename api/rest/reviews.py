"""/reviews: the queue, a candidate, and decisions. A decision names what was seen by If-Match."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from sqlalchemy.orm import Session

from api.errors import PreconditionFailed, PreconditionRequired
from api.presentation import adapter_link
from api.rest import PREFIX
from api.rest.schemas import (
    ApprovalBody,
    DecisionBody,
    ReleasedAnswer,
    ReviewDetails,
    ReviewItem,
    Reviews,
    ReviewsQuery,
    StrikeBody,
)
from api.security.identity import Decider, Reader, principal_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review import service
from pipeline.review.errors import StaleApproval
from pipeline.review.models import CandidateState
from pipeline.review.presentation import details_of, summary_of
from pipeline.review.repository import get_candidate, list_candidates, lock_candidate

router = APIRouter(prefix=PREFIX, tags=["reviews"])
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
IfMatch = Annotated[str | None, Header(max_length=400, description="The ETag of what was seen.")]


@router.get("/reviews", response_model=Reviews)
def list_reviews(_caller: Reader, query: Annotated[ReviewsQuery, Query()]) -> dict[str, Any]:
    """Candidates that wait for a human (or all), oldest first."""
    state = CandidateState.WAITING if query.state == "waiting" else None
    with reading() as session:
        return {"reviews": [summary_of(c) for c in list_candidates(session, state)]}


@router.get("/reviews/{number}", response_model=ReviewDetails, responses={304: {"description": "Not changed"}})
def get_review(_caller: Reader, number: Number, request: Request, response: Response) -> Any:
    """A candidate: patches, evidence, decisions, what would then pass. Its ETag is what a decision must name."""
    with reading() as session:
        found = details_of(session, get_candidate(session, number))
    tag = f'"{found["seen"]}"'
    if tag in etags(request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return found


def etags(header: str) -> list[str]:
    """The entity tags in a header."""
    return [tag.strip() for tag in header.split(",") if tag.strip()]


def seen_in(if_match: str | None) -> str:
    """The digest in If-Match. Raises `PreconditionRequired` if it names nothing that was seen."""
    tags = etags(if_match or "")
    if len(tags) != 1 or not (tags[0].startswith('"') and tags[0].endswith('"')):
        raise PreconditionRequired("Send If-Match with the one ETag that GET of it answered.")
    return tags[0].strip('"')


def require_unchanged(session: Session, number: int, if_match: str | None) -> None:
    """Raise `PreconditionRequired` without If-Match, `PreconditionFailed` if it is not what is stored."""
    if seen_in(if_match) != service.seen_digest(lock_candidate(session, number)):
        raise PreconditionFailed(f"Candidate {number} is not what If-Match names: look again.")


@router.post("/reviews/{number}/claim", response_model=ReviewItem)
def claim(caller: Decider, number: Number) -> dict[str, Any]:
    """Take a candidate for half an hour, so that nobody else decides meanwhile."""
    with unit_of_work() as session:
        return summary_of(service.claim(session, number, principal_of(session, caller)))


@router.post("/reviews/{number}/approve", response_model=ReleasedAnswer)
def approve(caller: Decider, number: Number, body: ApprovalBody, if_match: IfMatch = None) -> dict[str, Any]:
    """Release the candidate that If-Match names; exactly the models it can affect run again.

    `also` releases the same patches in other families with it, all or none. Where two persons have to approve, the
    first approval releases nothing.
    """
    seen = {**{other.id: other.seen for other in body.also}, number: seen_in(if_match)}
    try:
        with unit_of_work() as session:
            done = service.approve_together(session, seen, principal_of(session, caller), reason=body.reason)
            return _released(dict(zip(sorted(seen), done, strict=True)), number)
    except StaleApproval as error:
        raise PreconditionFailed(str(error)) from error


def _released(done: dict[int, service.Released], number: int) -> dict[str, Any]:
    links = {one: adapter_link(found.adapter) for one, found in done.items() if found.adapter is not None}
    runs = [run.id for found in done.values() for run in found.runs]
    return {"adapter": links.pop(number, None), "runs": runs, "also": list(links.values())}


@router.post("/reviews/{number}/reject", response_model=ReviewItem)
def reject(caller: Decider, number: Number, body: DecisionBody, if_match: IfMatch = None) -> dict[str, Any]:
    """Refuse a candidate for good."""
    with unit_of_work() as session:
        require_unchanged(session, number, if_match)
        return summary_of(service.reject(session, number, principal_of(session, caller), reason=body.reason))


@router.post("/reviews/{number}/changes", response_model=ReviewItem)
def changes(caller: Decider, number: Number, body: DecisionBody, if_match: IfMatch = None) -> dict[str, Any]:
    """Send a candidate back to its drafters."""
    with unit_of_work() as session:
        require_unchanged(session, number, if_match)
        return summary_of(service.request_changes(session, number, principal_of(session, caller), reason=body.reason))


@router.post("/reviews/{number}/strike", response_model=ReviewItem)
def strike(caller: Decider, number: Number, body: StrikeBody, if_match: IfMatch = None) -> dict[str, Any]:
    """Take one patch out; the answer is the smaller candidate, which is verified anew."""
    with unit_of_work() as session:
        require_unchanged(session, number, if_match)
        who = principal_of(session, caller)
        return summary_of(service.strike(session, number, who, position=body.position, reason=body.reason))
