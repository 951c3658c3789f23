"""The table of bench scores: one row per run of a drafter over a split, never changed afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.database.base import Base, one_of


class BenchScore(Base):
    """One run. `tasks_digest` tells task sets apart: only scores over the same tasks can be compared.

    `seed` is that of a fresh split. `data` holds the figures over all and by pattern, and every task's result.
    """

    __tablename__ = "bench_scores"
    __table_args__ = (
        one_of("drafter", ("rules", "llm", "null", "echo")),
        one_of("split", ("public", "fresh")),
        Index(None, "model", "split", "id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(String(120))
    drafter: Mapped[str] = mapped_column(String(16))
    split: Mapped[str] = mapped_column(String(16))
    seed: Mapped[int | None]
    tasks_digest: Mapped[str] = mapped_column(String(64))
    tasks: Mapped[int]
    at: Mapped[datetime]
    data: Mapped[dict[str, Any]]
