"""/requests: ask for an adapter, see how far it is."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Response

from api.presentation import request_answer
from api.rest import PREFIX
from api.rest.schemas import NewRequest, RequestAnswer
from api.security.identity import Caller, Reader, Requester, principal_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.requests.service import create_request
from pipeline.settings import get_settings
from pipeline.sweeps.schemas import checked
from pipeline.work.environment import shipped_profiles

router = APIRouter(prefix=PREFIX, tags=["requests"])
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=120, pattern=r"^[\x21-\x7e]+$")]


@router.post("/requests", status_code=202, response_model=RequestAnswer, responses={200: {"model": RequestAnswer}})
def post_request(
    caller: Requester, body: NewRequest, response: Response, idempotency_key: IdempotencyKey = None
) -> dict[str, Any]:
    """Ask for an adapter: 202 while work is to be done, 200 with the code to use when one is there.

    The same Idempotency-Key with the same body answers with the first request; with another body it is a conflict.
    """
    answer = make_request(caller, body, idempotency_key)
    response.status_code = 200 if answer["state"] == "ready" else 202
    response.headers["Location"] = f"/api/v1/requests/{answer['id']}"
    return answer


def make_request(caller: Caller, body: NewRequest, key: str | None) -> dict[str, Any]:
    """Store the request and say how far it is. A key is the caller's own: two callers never share one."""
    settings = get_settings()
    profile = checked("profile", body.profile or settings.profile, shipped_profiles())
    scoped = f"{caller.principal_id or 'anybody'}:{key}" if key else None
    with unit_of_work() as session:
        who = principal_of(session, caller) if caller.is_known else None
        how: dict[str, Any] = {"note": body.note, "releases": settings.releases, "idempotency_key": scoped}
        made = create_request(session, body.model, profile, principal=who, **how)
        return request_answer(session, made.request.id, settings.workers)


@router.get("/requests/{request_id}", response_model=RequestAnswer)
def get_request(_caller: Reader, request_id: Annotated[str, Path(max_length=36)]) -> dict[str, Any]:
    """How far a request is."""
    with reading() as session:
        return request_answer(session, request_id, get_settings().workers)
