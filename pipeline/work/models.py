"""Tables of the work: runs (the truth about every stage), the failures they found and the diagnoses made from them."""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from pipeline.database.base import Base, one_of


class RunState(StrEnum):
    """Where a run stands. Stored text."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    DONE = "done"
    CANCELLED = "cancelled"
    """Nobody wants it any more. It has no outcome; wanted again, it is queued again."""


ACTIVE_STATES = (RunState.QUEUED, RunState.CLAIMED)
"""States of a run that somebody still waits for."""


class Lane(IntEnum):
    """Who waits for a run; the higher lane goes first. Stored number."""

    SWEEP = 0
    RERUN = 1
    """A release, a withdrawal or a struck patch makes it run again."""
    REQUEST = 2
    """Somebody asked; requesters take turns."""


class Outcome(StrEnum):
    """How a run ended. Stored text."""

    PASSED = "passed"
    FAILED = "failed"
    INFRA = "infra"
    """Our fault: never counts against a model or patch."""
    UNKNOWN = "unknown"
    """Not enough evidence."""


class StageName(StrEnum):
    """The stages of design §4 that run as tasks. Stored text."""

    INSPECT = "inspect"
    CAPTURE = "capture"
    EXECUTE = "execute"
    DIAGNOSE = "diagnose"
    DRAFT = "draft"
    VERIFY = "verify"
    REPLAY = "replay"
    """Stored evidence is measured again; nothing follows from it."""


class Run(Base):
    """One execution of one stage for one subject.

    The lease (`lease_owner`, `lease_expires_at`) is by the database's clock; `fence` grows with every claim and a
    finish with an old one is refused. `deliveries` counts claims that did not end in a finish. `content_key` is the
    sha256 of everything that decides the result: the same work is never a second row. `lane`, `requester`, `priority`
    and `downloads` are its place in the queue (`pipeline.work.order`).
    """

    __tablename__ = "runs"
    __table_args__ = (
        one_of("state", RunState),
        one_of("outcome", Outcome),
        one_of("stage", StageName),
        Index("ix_runs_order", "state", "lane", "priority", "downloads", "id"),
        Index("ix_runs_turn", "requester", "started_at"),
        Index("ix_runs_subject", "checkpoint_id", "profile", "stage"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    stage: Mapped[str] = mapped_column(String(16))
    content_key: Mapped[str] = mapped_column(String(64), unique=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoints.id"))
    candidate_id: Mapped[int | None] = mapped_column(ForeignKey("candidates.id"), index=True)
    adapter_id: Mapped[int | None] = mapped_column(ForeignKey("adapters.id"), index=True)
    parent_run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"), index=True)
    request_id: Mapped[str | None] = mapped_column(ForeignKey("requests.id"), index=True)
    profile: Mapped[str] = mapped_column(String(64))
    weights_mode: Mapped[str] = mapped_column(String(16))
    releases_mode: Mapped[str] = mapped_column(String(16), default="bundled")
    tier: Mapped[str] = mapped_column(String(16))
    environment: Mapped[str] = mapped_column(String(64))
    lane: Mapped[int] = mapped_column(default=Lane.SWEEP, server_default="0")
    requester: Mapped[str | None] = mapped_column(String(64))
    priority: Mapped[int] = mapped_column(default=0)
    downloads: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")

    state: Mapped[str] = mapped_column(String(16), default=RunState.QUEUED)
    sent_at: Mapped[datetime | None]
    not_before: Mapped[datetime | None]
    lease_owner: Mapped[str | None] = mapped_column(String(120))
    lease_expires_at: Mapped[datetime | None]
    fence: Mapped[int] = mapped_column(default=0)
    deliveries: Mapped[int] = mapped_column(default=0)
    attempts: Mapped[int] = mapped_column(default=0)

    outcome: Mapped[str | None] = mapped_column(String(16))
    kind: Mapped[str | None] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(Text, default="")
    weights: Mapped[str | None] = mapped_column(String(16))
    depth: Mapped[str | None] = mapped_column(String(32))
    fingerprint: Mapped[str | None] = mapped_column(String(64), index=True)
    seconds: Mapped[float | None]
    peak_rss_mb: Mapped[float | None]
    measurements: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    evidence: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    artefacts: Mapped[list[Any]] = mapped_column(JSON, default=list)
    versions: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)

    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None] = mapped_column(index=True)

    failures: Mapped[list[FailureRow]] = relationship(back_populates="run", order_by="FailureRow.id")
    diagnoses: Mapped[list[DiagnosisRow]] = relationship(back_populates="run", order_by="DiagnosisRow.id")


class FailureRow(Base):
    """One reason a checkpoint does not pass, as one run found it (`agents.types.Failure` in `data`)."""

    __tablename__ = "failures"

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoints.id"), index=True)
    kind: Mapped[str] = mapped_column(String(32), index=True)
    op: Mapped[str] = mapped_column(String(120), index=True)
    source: Mapped[str] = mapped_column(String(240), default="")
    module: Mapped[str] = mapped_column(String(240), default="")
    place: Mapped[str] = mapped_column(String(16), default="block")
    count: Mapped[int] = mapped_column(default=1)
    after: Mapped[bool] = mapped_column(default=False)
    message: Mapped[str] = mapped_column(Text, default="")
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    run: Mapped[Run] = relationship(back_populates="failures")


class DiagnosisRow(Base):
    """A failure with the patterns that could apply (`agents.types.Diagnosis` in `data`)."""

    __tablename__ = "diagnoses"

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoints.id"), index=True)
    kind: Mapped[str] = mapped_column(String(32))
    op: Mapped[str] = mapped_column(String(120))
    no_patch: Mapped[str | None] = mapped_column(Text)
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    run: Mapped[Run] = relationship(back_populates="diagnoses")


class Chore(Base):
    """Scheduled work of one period, such as listing the Hub: the unique key makes it once."""

    __tablename__ = "chores"
    __table_args__ = (
        UniqueConstraint("name", "period"),
        one_of("name", ("refresh", "sweep")),
        one_of("state", RunState),
        one_of("outcome", Outcome),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(16))
    period: Mapped[str] = mapped_column(String(40))
    state: Mapped[str] = mapped_column(String(16), default=RunState.QUEUED)
    outcome: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text, default="")
    lease_owner: Mapped[str | None] = mapped_column(String(120))
    lease_expires_at: Mapped[datetime | None]
    fence: Mapped[int] = mapped_column(default=0)
    attempts: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[datetime | None]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
