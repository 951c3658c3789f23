"""/requests: ask for an adapter, see how far it is, follow it, cancel it."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import structlog
from fastapi import APIRouter, Header, Path, Request, Response
from sqlalchemy.orm import Session

from api.events import EVENTS, follow
from api.presentation import request_answer
from api.rest import PREFIX
from api.rest.schemas import REQUEST_ID, NewRequest, RequestAnswer
from api.security.identity import Caller, Reader, Requester, principal_of
from pipeline.database.accounts import NotAllowed
from pipeline.database.events import stream_of
from pipeline.database.models import Role
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.requests import idempotency
from pipeline.requests.lookup import find_model
from pipeline.requests.models import RequestRow, RequestState
from pipeline.requests.repository import get_request as find_request
from pipeline.requests.service import cancel_request, create_request, requester_name
from pipeline.settings import get_settings
from pipeline.sweeps.schemas import checked
from pipeline.work.environment import shipped_profiles

router = APIRouter(prefix=PREFIX, tags=["requests"])
ROUTE = "POST /api/v1/requests"
log = structlog.get_logger("api")
MAX_NUMBER = 2**63 - 1
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=120, pattern=r"^[\x21-\x7e]+$")]
LastEventId = Annotated[int, Header(ge=0, le=MAX_NUMBER, description="The id of the last event that was seen.")]
RequestId = Annotated[str, Path(pattern=REQUEST_ID, examples=["0f9a2c4e-7b1d-4c3a-9e55-0b6f6f0e2a11"])]


class Answered(NamedTuple):
    """A request's answer and its status: 200 if it is ready, else 202."""

    status: int
    body: dict[str, Any]


@router.post("/requests", status_code=202, response_model=RequestAnswer, responses={200: {"model": RequestAnswer}})
def post_request(
    caller: Requester, body: NewRequest, response: Response, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Ask for an adapter: 202 while work is to be done, 200 with the code to use when one is there.

    For 24 hours the same Idempotency-Key with the same body answers as the first time; another body is refused (422).
    Without a key your own open request for the same is returned. 424: the model is in no catalogue and the Hub cannot
    be reached.
    """
    answer = make_request(caller, body, idempotency_key)
    response.status_code = answer.status
    response.headers["Location"] = f"/api/v1/requests/{answer.body['id']}"
    return answer.body


def make_request(caller: Caller, body: NewRequest, key: str | None, route: str = ROUTE) -> Answered:
    """Store the request and say how far it is. A key is the caller's own: two callers never share one."""
    settings = get_settings()
    profile = checked("profile", body.profile or settings.profile, shipped_profiles())
    found = find_model(body.model, body.revision, body.config)
    model = body.model or (found.model_id if found else "")
    used = None
    if key is not None:
        used = idempotency.Key(requester_name(caller.principal_id), route, key, body.model_dump(mode="json"))
    with unit_of_work() as session:
        row = idempotency.begin(session, used) if used else None
        if row is not None and row.answer is not None:
            return Answered(row.status or 202, row.answer)
        who = principal_of(session, caller) if caller.is_known else None
        asked: dict[str, Any] = {"note": body.note, "revision": body.revision, "callback_url": body.callback_url}
        made = create_request(session, model, profile, principal=who, releases=settings.releases, found=found, **asked)
        log.info("request.asked", request=made.request.id, model=model, created=made.created)
        answer = _answer(session, made.request.id)
        if row is not None:
            idempotency.answered(row, *answer)
        return answer


def _answer(session: Session, request_id: str) -> Answered:
    answer = RequestAnswer.model_validate(request_answer(session, request_id, get_settings().workers))
    return Answered(200 if answer.state == "ready" else 202, answer.model_dump(mode="json"))


@router.get("/requests/{request_id}", response_model=RequestAnswer)
def get_request(_caller: Reader, request_id: RequestId) -> dict[str, Any]:
    """How far a request is."""
    with reading() as session:
        return request_answer(session, request_id, get_settings().workers)


@router.post("/requests/{request_id}/cancel", response_model=RequestAnswer)
def post_cancel(caller: Requester, request_id: RequestId) -> dict[str, Any]:
    """End a request of yours; work that somebody else waits for goes on. A second time it changes nothing."""
    with unit_of_work() as session:
        row = find_request(session, request_id)
        require_own(caller, row)
        cancel_request(session, row)
        return request_answer(session, request_id, get_settings().workers)


def require_own(caller: Caller, row: RequestRow) -> None:
    """Raise `NotAllowed` unless the request is the caller's, or nobody's in particular, or the caller is an admin."""
    if row.principal_id not in (None, caller.principal_id) and Role.ADMIN not in caller.roles:
        raise NotAllowed("Only who made a request, or an administrator, may cancel it.")


@router.get("/requests/{request_id}/events", response_class=Response, responses=EVENTS)
def get_events(caller: Reader, request: Request, request_id: RequestId, last_event_id: LastEventId = 0) -> Response:
    """What happens to a request, as Server-Sent Events, from its beginning or from after `Last-Event-ID`."""

    def has_ended(session: Session) -> bool:
        return find_request(session, request_id).state != RequestState.OPEN

    return follow(request, caller, stream_of("request", request_id), last_event_id, has_ended)
