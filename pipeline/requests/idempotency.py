"""Idempotency keys: a principal's key on a route answers the same body with the same answer for 24 hours.

The key's row is inserted first and its answer stored before the same transaction commits, so a second call with the
key waits for the first and then finds the answer: there is no moment in which the effect is there and the answer not.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.database.insert import insert_or_return
from pipeline.database.unit_of_work import database_now
from pipeline.requests import repository
from pipeline.requests.errors import IdempotencyConflict
from pipeline.requests.models import IdempotencyKey

KEPT = timedelta(hours=24)


@dataclass(frozen=True)
class Key:
    """A key as it came: whose, on which route, with which body."""

    requester: str
    route: str
    key: str
    body: Any

    @property
    def body_digest(self) -> str:
        """sha256 of the body, as canonical JSON."""
        return hashlib.sha256(canonical(self.body)).hexdigest()


def begin(session: Session, key: Key) -> IdempotencyKey:
    """The key's row; one with an answer was used before. Raises `IdempotencyConflict` for another body."""
    now = database_now(session)
    repository.drop_expired_keys(session, now)
    unique = {"requester": key.requester, "route": key.route, "key": key.key}
    values = {"body_digest": key.body_digest, "created_at": now, "expires_at": now + KEPT}
    row: IdempotencyKey = insert_or_return(session, IdempotencyKey, unique, values).row
    if row.body_digest != key.body_digest:
        raise IdempotencyConflict(f"The key {key.key!r} was used before with another body: use a new key.")
    return row


def answered(row: IdempotencyKey, status: int, answer: dict[str, Any]) -> None:
    """Store what was answered."""
    row.status, row.answer = status, answer
