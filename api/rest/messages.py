"""/messages: callbacks and notices, sent, waiting and given up; and the secret that callbacks are signed with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.rest import PREFIX
from api.rest.paging import PageQuery, page_of
from api.security.identity import Caller, Owner
from pipeline.database.models import Role
from pipeline.database.unit_of_work import reading
from pipeline.notices.models import Message, MessageState
from pipeline.notices.repository import messages_where
from pipeline.notices.signing import SIGNATURE, TIMESTAMP, client_secret
from pipeline.settings import get_settings

router = APIRouter(prefix=PREFIX, tags=["messages"])
SHOWN = ("id", "kind", "state", "address", "topic", "attempts", "reason", "not_before", "created_at", "finished_at")


class MessagesQuery(PageQuery):
    """Which messages; `dead` ones were given up."""

    state: MessageState | None = None


class MessageItem(BaseModel):
    """A message to one address. `not_before` is when it is tried next, `reason` why the last attempt failed."""

    id: int
    kind: str
    state: str
    address: str
    topic: str
    attempts: int
    reason: str
    request: str | None
    not_before: datetime
    created_at: datetime
    finished_at: datetime | None


class Messages(BaseModel):
    """One page of messages, newest first; `enabled` says whether callbacks are sent at all."""

    enabled: bool
    messages: list[MessageItem]
    next: str | None


class Secret(BaseModel):
    """The secret of the caller's callbacks: HMAC-SHA256 of `TIMESTAMP.BODY`, in hexadecimal after `v1=`."""

    secret: str
    signature_header: str
    timestamp_header: str


@router.get("/messages", response_model=Messages)
def list_messages(caller: Owner, query: Annotated[MessagesQuery, Query()]) -> dict[str, Any]:
    """The caller's callbacks, newest first; an administrator sees everybody's, and the notices."""
    with reading() as session:
        page = page_of(session, messages_where(_whose(caller), query.state), Message.id, query, "messages")
    rows = [{**{name: getattr(row, name) for name in SHOWN}, "request": row.request_id} for row in page.rows]
    return {"enabled": get_settings().webhooks, "messages": rows, "next": page.next}


@router.get("/messages/secret", response_model=Secret)
def get_secret(caller: Owner) -> dict[str, str]:
    """What the caller checks the signature of its callbacks with."""
    secret = client_secret(get_settings(), caller.principal_id)
    return {"secret": secret, "signature_header": SIGNATURE, "timestamp_header": TIMESTAMP}


def _whose(caller: Caller) -> int | None:
    return None if Role.ADMIN in caller.roles else caller.principal_id
