"""The table of requests."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.database.base import Base, one_of


class RequestState(StrEnum):
    """Where a request stands. Stored text."""

    OPEN = "open"
    DONE = "done"
    CANCELLED = "cancelled"


class RequestRow(Base):
    """Somebody asks for an adapter for a model. The id (UUID text) threads through every row it causes.

    `open_key` is the digest of who asked for what while the request is open, so that the same is open only once.
    `idempotency_key` is the first release's; keys are in a table of their own now.
    """

    __tablename__ = "requests"
    __table_args__ = (one_of("state", RequestState), Index(None, "principal_id", "created_at"))

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    model: Mapped[str] = mapped_column(String(200), index=True)
    revision: Mapped[str | None] = mapped_column(String(64))
    profile: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16), default=RequestState.OPEN)
    note: Mapped[str] = mapped_column(Text, default="")
    principal_id: Mapped[int | None] = mapped_column(ForeignKey("principals.id"))
    idempotency_key: Mapped[str | None] = mapped_column(String(200), unique=True)
    body_digest: Mapped[str] = mapped_column(String(64))
    open_key: Mapped[str | None] = mapped_column(String(64), unique=True)
    callback_url: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]


class IdempotencyKey(Base):
    """What a principal's key was used for on a route, and the answer: given again until `expires_at`.

    Stored in the transaction that made what the answer is about.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (UniqueConstraint("requester", "route", "key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    requester: Mapped[str] = mapped_column(String(64))
    route: Mapped[str] = mapped_column(String(120))
    key: Mapped[str] = mapped_column(String(120))
    body_digest: Mapped[str] = mapped_column(String(64))
    status: Mapped[int | None]
    answer: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
