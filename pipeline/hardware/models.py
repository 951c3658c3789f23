"""The table of hardware verdicts: one row per replay of evidence on a card, never changed afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.database.base import Base, one_of


class HardwareVerdict(Base):
    """What a card made of stored evidence. `document` is the evidence's address, `simulated` the outcome stored there.

    `versions` are those of the card's stack and of torch. `data` holds the verdict document, its differences from the
    simulator's, and how far each figure moved.
    """

    __tablename__ = "hardware_verdicts"
    __table_args__ = (one_of("outcome", ("passed", "failed", "infra", "unknown")),)

    id: Mapped[int] = mapped_column(primary_key=True)
    document: Mapped[str] = mapped_column(String(64), index=True)
    model: Mapped[str] = mapped_column(String(200))
    profile: Mapped[str] = mapped_column(String(40))
    simulated: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[str] = mapped_column(String(16))
    at: Mapped[datetime]
    versions: Mapped[dict[str, Any]]
    data: Mapped[dict[str, Any]]
