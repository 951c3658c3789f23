"""Tables of the review: candidates and their patches, evidence, reviews, trajectories, the ledger of budgets."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from pipeline.database.base import Base, one_of


class CandidateState(StrEnum):
    """Where a candidate stands. Stored text."""

    VERIFYING = "verifying"
    REFUSED = "refused"
    """The gate said no; the reason is stored and goes into the next draft."""
    INCONCLUSIVE = "inconclusive"
    """Not enough evidence, or our fault: a new verification may decide."""
    WAITING = "waiting"
    """Complete `full` evidence: it waits for a human."""
    REJECTED = "rejected"
    CHANGES = "changes"
    SUPERSEDED = "superseded"
    """A patch was struck: the set without it is another candidate."""
    RELEASED = "released"
    WITHDRAWN = "withdrawn"


class Decision(StrEnum):
    """What a human decided. Stored text."""

    APPROVE = "approve"
    REJECT = "reject"
    CHANGES = "changes"
    STRIKE = "strike"
    WITHDRAW = "withdraw"


SCRIPTED = "scripted"
"""The stored model name of patches that came from the demonstration endpoint."""


class CandidateRow(Base):
    """An ordered set of patches for a family, one row per digest (`agents.types.Candidate.to_dict()` in `data`).

    `scripted` is true when a patch came from the demonstration endpoint: such a candidate counts in no figure.
    """

    __tablename__ = "candidates"
    __table_args__ = (one_of("state", CandidateState), Index(None, "state", "id"), Index(None, "family", "profile"))

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    family: Mapped[str] = mapped_column(String(64))
    profile: Mapped[str] = mapped_column(String(64))
    dtype: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text, default="")
    scripted: Mapped[bool] = mapped_column(default=False)
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    draft_run_id: Mapped[int | None] = mapped_column(
        ForeignKey("runs.id", use_alter=True, name="fk_candidates_draft_run_id"), index=True
    )
    struck_from_id: Mapped[int | None] = mapped_column(ForeignKey("candidates.id"), index=True)
    request_id: Mapped[str | None] = mapped_column(ForeignKey("requests.id"), index=True)
    claimed_by_id: Mapped[int | None] = mapped_column(ForeignKey("principals.id"))
    claim_expires_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    patches: Mapped[list[PatchRow]] = relationship(back_populates="candidate", order_by="PatchRow.position")
    evidence: Mapped[list[EvidenceRow]] = relationship(back_populates="candidate", order_by="EvidenceRow.id")
    reviews: Mapped[list[ReviewRow]] = relationship(back_populates="candidate", order_by="ReviewRow.id")
    checkpoints: Mapped[list[CandidateCheckpoint]] = relationship(back_populates="candidate")


class PatchRow(Base):
    """One patch of a candidate and who drafted it (`agents.types.PatchDraft` in `data`)."""

    __tablename__ = "patches"
    __table_args__ = (UniqueConstraint("candidate_id", "position"), one_of("drafter", ("rules", "llm", "hand")))

    id: Mapped[int] = mapped_column(primary_key=True)
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    position: Mapped[int]
    pattern: Mapped[str] = mapped_column(String(64))
    drafter: Mapped[str] = mapped_column(String(16))
    model: Mapped[str | None] = mapped_column(String(120))
    exactness: Mapped[str] = mapped_column(String(16))
    bound: Mapped[float | None]
    trajectory_id: Mapped[str | None] = mapped_column(String(64))
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    candidate: Mapped[CandidateRow] = relationship(back_populates="patches")


class CandidateCheckpoint(Base):
    """A failing checkpoint a candidate was drafted for."""

    __tablename__ = "candidate_checkpoints"

    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"), primary_key=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoints.id"), primary_key=True, index=True)
    candidate: Mapped[CandidateRow] = relationship(back_populates="checkpoints")
    checkpoint: Mapped[Any] = relationship("Checkpoint", lazy="joined")


class EvidenceRow(Base):
    """Everything the gate measured for one (candidate, checkpoint, environment). `digest` covers all of it."""

    __tablename__ = "evidence"
    __table_args__ = (
        UniqueConstraint("candidate_id", "checkpoint_id", "environment", "tier"),
        one_of("outcome", ("passed", "failed", "infra", "unknown")),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoints.id"), index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    candidate_digest: Mapped[str] = mapped_column(String(64))
    environment: Mapped[str] = mapped_column(String(64))
    tier: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[str] = mapped_column(String(16))
    complete: Mapped[bool]
    weights: Mapped[str | None] = mapped_column(String(16))
    measurements: Mapped[dict[str, Any]] = mapped_column(JSON)
    evidence: Mapped[dict[str, Any]] = mapped_column(JSON)
    artefacts: Mapped[list[Any]] = mapped_column(JSON, default=list)
    digest: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    candidate: Mapped[CandidateRow] = relationship(back_populates="evidence")
    checkpoint: Mapped[Any] = relationship("Checkpoint", lazy="joined")


class ReviewRow(Base):
    """A human's decision, bound to the candidate's digest and to what was seen. The database refuses any other kind.

    `adapter_id` stands in place of the candidate where a bundled adapter is withdrawn; the digests are then its own.
    """

    __tablename__ = "reviews"
    __table_args__ = (
        ForeignKeyConstraint(["principal_id", "principal_kind"], ["principals.id", "principals.kind"]),
        CheckConstraint("principal_kind = 'human'", name="reviewer_is_human"),
        one_of("decision", Decision),
        CheckConstraint("(candidate_id IS NULL) <> (adapter_id IS NULL)", name="about_one_thing"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    candidate_id: Mapped[int | None] = mapped_column(ForeignKey("candidates.id"), index=True)
    adapter_id: Mapped[int | None] = mapped_column(ForeignKey("adapters.id"), index=True)
    principal_id: Mapped[int]
    principal_kind: Mapped[str] = mapped_column(String(16), default="human")
    decision: Mapped[str] = mapped_column(String(16))
    candidate_digest: Mapped[str] = mapped_column(String(64))
    evidence_digest: Mapped[str] = mapped_column(String(64))
    request_id: Mapped[str | None] = mapped_column(ForeignKey("requests.id"), index=True)
    reason: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    previous_digest: Mapped[str | None] = mapped_column(String(64), index=True, unique=True)
    digest: Mapped[str | None] = mapped_column(String(64))
    """With `previous_digest` the chain of `pipeline.review.history`; NULL in rows older than it."""
    candidate: Mapped[CandidateRow | None] = relationship(back_populates="reviews")


class BlindAnswer(StrEnum):
    """What a reviewer would decide. Stored text."""

    APPROVE = "approve"
    REJECT = "reject"


class BlindReview(Base):
    """What a reviewer said of a candidate whose truth is known, without its evidence. No decision rests on it."""

    __tablename__ = "blind_reviews"
    __table_args__ = (UniqueConstraint("candidate_id", "principal_id"), one_of("answer", BlindAnswer))

    id: Mapped[int] = mapped_column(primary_key=True)
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    principal_id: Mapped[int] = mapped_column(ForeignKey("principals.id"))
    known_bad: Mapped[bool]
    answer: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]


class Trajectory(Base):
    """The record of one drafting attempt; its steps are saved one by one, each before the next begins."""

    __tablename__ = "trajectories"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"), index=True)
    model: Mapped[str] = mapped_column(String(120))
    scripted: Mapped[bool] = mapped_column(default=False)
    cost_usd: Mapped[float | None]
    tokens: Mapped[int | None]
    created_at: Mapped[datetime]
    steps: Mapped[list[TrajectoryStep]] = relationship(order_by="TrajectoryStep.position")


class TrajectoryStep(Base):
    """One step of a trajectory."""

    __tablename__ = "trajectory_steps"

    trajectory_id: Mapped[str] = mapped_column(ForeignKey("trajectories.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime]


class BudgetEntry(Base):
    """Money reserved before a call and settled after it. `settled_usd` stays NULL while the cost is unknown."""

    __tablename__ = "budget_ledger"
    __table_args__ = (CheckConstraint("reserved_usd >= 0", name="reserved_not_negative"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    day: Mapped[str] = mapped_column(String(10), index=True)
    purpose: Mapped[str] = mapped_column(String(120))
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"), index=True)
    reserved_usd: Mapped[float]
    settled_usd: Mapped[float | None]
    tokens: Mapped[int | None]
    created_at: Mapped[datetime]
    settled_at: Mapped[datetime | None]
