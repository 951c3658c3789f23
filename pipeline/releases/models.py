"""The table of adapters: released, versioned sets of patches for a family."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.database.base import Base, one_of


class Origin(StrEnum):
    """Where an adapter comes from. Stored text."""

    BUNDLED = "bundled"
    SERVICE = "service"


class AdapterState(StrEnum):
    """Whether an adapter may be used. Stored text."""

    RELEASED = "released"
    WITHDRAWN = "withdrawn"


class Adapter(Base):
    """A released set of patches with its match predicate. `digest` covers the whole manifest."""

    __tablename__ = "adapters"
    __table_args__ = (
        one_of("origin", Origin),
        one_of("state", AdapterState),
        UniqueConstraint("name", "version"),
        Index(None, "profile", "state"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(120))
    version: Mapped[int]
    origin: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16), default=AdapterState.RELEASED)
    family: Mapped[str] = mapped_column(String(64), index=True)
    profile: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    scripted: Mapped[bool] = mapped_column(default=False)
    manifest: Mapped[dict[str, Any]] = mapped_column(JSON)
    predicate: Mapped[dict[str, Any]] = mapped_column(JSON)
    artefact_digest: Mapped[str | None] = mapped_column(ForeignKey("artefacts.digest"))
    candidate_id: Mapped[int | None] = mapped_column(ForeignKey("candidates.id"), index=True)
    request_id: Mapped[str | None] = mapped_column(ForeignKey("requests.id"))
    created_at: Mapped[datetime]
    withdrawn_at: Mapped[datetime | None]
    withdrawn_reason: Mapped[str] = mapped_column(Text, default="")
