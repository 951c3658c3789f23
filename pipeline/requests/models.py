"""The table of requests."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.database.base import Base, one_of


class RequestState(StrEnum):
    """Where a request stands. Stored text."""

    OPEN = "open"
    DONE = "done"
    CANCELLED = "cancelled"


class RequestRow(Base):
    """Somebody asks for an adapter for a model. The id (UUID text) threads through every row it causes."""

    __tablename__ = "requests"
    __table_args__ = (one_of("state", RequestState),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    model: Mapped[str] = mapped_column(String(200), index=True)
    profile: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16), default=RequestState.OPEN)
    note: Mapped[str] = mapped_column(Text, default="")
    principal_id: Mapped[int | None] = mapped_column(ForeignKey("principals.id"))
    idempotency_key: Mapped[str | None] = mapped_column(String(200), unique=True)
    body_digest: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
