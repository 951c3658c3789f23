"""The table of proposed rules: one row per rule, decided once by a human."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.database.base import Base, one_of


class RuleState(StrEnum):
    """Where a proposed rule stands. Stored text."""

    WAITING = "waiting"
    ACCEPTED = "accepted"
    """The rules drafter uses it."""
    REJECTED = "rejected"


class RuleProposal(Base):
    """A rule with its tests (`agents.drafters.generalise.Proposal` in `data`), and who decided on it.

    `digest` covers the rule and its tests: a decision names it. `scripted` says that the patch came from the
    demonstration endpoint.
    """

    __tablename__ = "rule_proposals"
    __table_args__ = (
        one_of("state", RuleState),
        ForeignKeyConstraint(["principal_id", "principal_kind"], ["principals.id", "principals.kind"]),
        CheckConstraint("principal_kind IS NULL OR principal_kind = 'human'", name="decider_is_human"),
        CheckConstraint("(state = 'waiting') = (principal_id IS NULL)", name="decided_by_somebody"),
        Index(None, "state", "id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"), index=True)
    model: Mapped[str] = mapped_column(String(120))
    scripted: Mapped[bool] = mapped_column(default=False)
    state: Mapped[str] = mapped_column(String(16), default=RuleState.WAITING)
    data: Mapped[dict[str, Any]]
    principal_id: Mapped[int | None]
    principal_kind: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[datetime]
    decided_at: Mapped[datetime | None]
