"""Tables of the catalogue and of sweeps: models, checkpoints, snapshots, capability cache, sweeps, current status."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, UniqueConstraint, true
from sqlalchemy.orm import Mapped, mapped_column, relationship

from pipeline.database.base import Base, one_of


class SweepState(StrEnum):
    """Where a sweep stands. Stored text."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class Model(Base):
    """One Hub id, any revision. `rank` and `downloads` are those of the last snapshot that listed it."""

    __tablename__ = "models"
    __table_args__ = (Index(None, "downloads", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    rank: Mapped[int | None] = mapped_column(index=True)
    downloads: Mapped[int] = mapped_column(BigInteger, default=0)
    created_at: Mapped[datetime]
    checkpoints: Mapped[list[Checkpoint]] = relationship(back_populates="model")


class Checkpoint(Base):
    """One model at one revision. `facts` is the catalogue's record of it, `family` the digest of its structure.

    Checkpoints with the same `group_key` share a verdict on synthetic weights (`pipeline.sweeps.groups`).
    """

    __tablename__ = "checkpoints"
    __table_args__ = (UniqueConstraint("model_id", "revision"), Index(None, "model_id", "id"))

    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    revision: Mapped[str] = mapped_column(String(64))
    config: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    config_digest: Mapped[str | None] = mapped_column(String(64), index=True)
    family: Mapped[str | None] = mapped_column(String(64), index=True)
    group_key: Mapped[str | None] = mapped_column(String(64), index=True)
    facts: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    local_path: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    model: Mapped[Model] = relationship(back_populates="checkpoints", lazy="joined")


class CatalogueSnapshot(Base):
    """A catalogue as it was listed at one time."""

    __tablename__ = "catalogue_snapshots"

    id: Mapped[int] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    listed: Mapped[int]
    dropped: Mapped[int]
    taken_at: Mapped[datetime]
    entries: Mapped[list[CatalogueEntry]] = relationship(back_populates="snapshot", order_by="CatalogueEntry.position")


class ChangeKind(StrEnum):
    """What became of a model between two listings of one source. Stored text."""

    ENTERED = "entered"
    LEFT = "left"
    MOVED = "moved"


class CatalogueChange(Base):
    """A model that a snapshot lists anew, no longer, or at another rank than the one before it of the same source."""

    __tablename__ = "catalogue_changes"
    __table_args__ = (one_of("change", ChangeKind),)

    snapshot_id: Mapped[int] = mapped_column(ForeignKey("catalogue_snapshots.id"), primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), primary_key=True)
    change: Mapped[str] = mapped_column(String(16))
    rank_before: Mapped[int | None]
    rank_after: Mapped[int | None]


class CatalogueEntry(Base):
    """One listed model of a snapshot; `position` is its place in a sweep. A dropped one has a kind and a reason."""

    __tablename__ = "catalogue_entries"
    __table_args__ = (UniqueConstraint("snapshot_id", "model_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    snapshot_id: Mapped[int] = mapped_column(ForeignKey("catalogue_snapshots.id"))
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), index=True)
    checkpoint_id: Mapped[int | None] = mapped_column(ForeignKey("checkpoints.id"), index=True)
    position: Mapped[int]
    rank: Mapped[int]
    downloads: Mapped[int] = mapped_column(BigInteger)
    dropped_kind: Mapped[str | None] = mapped_column(String(32))
    dropped_reason: Mapped[str | None] = mapped_column(Text)
    snapshot: Mapped[CatalogueSnapshot] = relationship(back_populates="entries")
    model: Mapped[Model] = relationship(lazy="joined")
    checkpoint: Mapped[Checkpoint | None] = relationship()


class Capability(Base):
    """A capability report, shared by all checkpoints with the same graph (config, dtype), adapter and environment."""

    __tablename__ = "capabilities"
    __table_args__ = (UniqueConstraint("graph_key", "adapter_digest", "environment"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    graph_key: Mapped[str] = mapped_column(String(64))
    adapter_digest: Mapped[str] = mapped_column(String(64))
    environment: Mapped[str] = mapped_column(String(64))
    profile: Mapped[str] = mapped_column(String(64))
    fingerprint: Mapped[str | None] = mapped_column(String(64), index=True)
    result: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime]


class Sweep(Base):
    """A set of runs over a catalogue snapshot."""

    __tablename__ = "sweeps"
    __table_args__ = (one_of("state", SweepState),)

    id: Mapped[int] = mapped_column(primary_key=True)
    snapshot_id: Mapped[int] = mapped_column(ForeignKey("catalogue_snapshots.id"), index=True)
    request_id: Mapped[str | None] = mapped_column(ForeignKey("requests.id"), index=True)
    profile: Mapped[str] = mapped_column(String(64))
    weights_mode: Mapped[str] = mapped_column(String(16))
    releases_mode: Mapped[str] = mapped_column(String(16))
    tier: Mapped[str] = mapped_column(String(16))
    top: Mapped[int | None]
    environment: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(16), default=SweepState.RUNNING)
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    snapshot: Mapped[CatalogueSnapshot] = relationship(lazy="joined")


class SweepRun(Base):
    """A run a sweep needs. `fresh` is true when the result did not exist yet: only those execute anything."""

    __tablename__ = "sweep_runs"

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True, index=True)
    fresh: Mapped[bool]


class CheckpointStatus(Base):
    """Where a checkpoint stands on one profile now: the last inspect, capture or execute run decides.

    `derived_from` is the checkpoint of the same group that the run was made for, where it is another one. `downloads`
    are the model's, and `newest` says whether this is its newest checkpoint: so that coverage reads one table.
    """

    __tablename__ = "checkpoint_status"
    __table_args__ = (
        Index(None, "profile", "outcome"),
        Index(
            "ix_checkpoint_status_figures",
            *("profile", "newest", "outcome", "supported", "scripted", "weights", "depth", "downloads"),
        ),
    )

    checkpoint_id: Mapped[int] = mapped_column(ForeignKey("checkpoints.id"), primary_key=True)
    profile: Mapped[str] = mapped_column(String(64), primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    adapter_id: Mapped[int | None] = mapped_column(ForeignKey("adapters.id"), index=True)
    stage: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str | None] = mapped_column(String(32))
    reason: Mapped[str] = mapped_column(Text, default="")
    supported: Mapped[bool] = mapped_column(default=False)
    scripted: Mapped[bool] = mapped_column(default=False)
    weights: Mapped[str | None] = mapped_column(String(16))
    tier: Mapped[str] = mapped_column(String(16))
    depth: Mapped[str | None] = mapped_column(String(32))
    fingerprint: Mapped[str | None] = mapped_column(String(64), index=True)
    stock_causes: Mapped[int | None]
    stock_reason: Mapped[str] = mapped_column(Text, default="")
    environment: Mapped[str] = mapped_column(String(64))
    updated_at: Mapped[datetime]
    derived_from: Mapped[int | None] = mapped_column(ForeignKey("checkpoints.id"), index=True)
    downloads: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    newest: Mapped[bool] = mapped_column(default=True, server_default=true())
    checkpoint: Mapped[Checkpoint] = relationship(lazy="joined", foreign_keys=[checkpoint_id])
    speaker: Mapped[Checkpoint | None] = relationship(foreign_keys=[derived_from])
    adapter: Mapped[Any] = relationship("Adapter")
