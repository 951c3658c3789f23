"""The table of messages to the outside."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.database.base import Base, one_of


class MessageKind(StrEnum):
    """Why it is sent. Stored text."""

    CALLBACK = "callback"
    """The end of a request, to the address that it named."""
    NOTICE = "notice"
    """Something waits for a reviewer."""


class MessageState(StrEnum):
    """How far it is. Stored text."""

    WAITING = "waiting"
    SENT = "sent"
    DEAD = "dead"
    """Given up after the last attempt: it stays to be seen."""


class Message(Base):
    """A message to one address, stored in the transaction of what it tells. A new lease has a higher `fence`."""

    __tablename__ = "messages"
    __table_args__ = (
        one_of("kind", MessageKind),
        one_of("state", MessageState),
        Index("ix_messages_due", "state", "not_before"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16), default=MessageState.WAITING)
    address: Mapped[str] = mapped_column(Text)
    topic: Mapped[str] = mapped_column(String(64))
    body: Mapped[dict[str, Any]] = mapped_column(JSON)
    principal_id: Mapped[int | None] = mapped_column(ForeignKey("principals.id"), index=True)
    request_id: Mapped[str | None] = mapped_column(ForeignKey("requests.id"), index=True)
    attempts: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(default=0)
    reason: Mapped[str] = mapped_column(Text, default="")
    not_before: Mapped[datetime]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
