"""Tables that belong to no single domain: principals and their sessions, events, artefacts, facts of the database."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from pipeline.database.base import Base, one_of


class PrincipalKind(StrEnum):
    """Who acts. Stored text."""

    HUMAN = "human"
    SERVICE = "service"
    AGENT = "agent"


class Role(StrEnum):
    """What a principal may do. Stored text."""

    VIEWER = "viewer"
    REQUESTER = "requester"
    REVIEWER = "reviewer"
    ADMIN = "admin"


class SessionKind(StrEnum):
    """How a principal proves who they are. Stored text."""

    LOGIN = "login"
    """A one-time link; it can only be exchanged for a cookie."""
    COOKIE = "cookie"
    BEARER = "bearer"


class Principal(Base):
    """Somebody or something that acts."""

    __tablename__ = "principals"
    __table_args__ = (UniqueConstraint("id", "kind"), one_of("kind", PrincipalKind))

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(String(120), unique=True)
    created_at: Mapped[datetime]
    roles: Mapped[list[PrincipalRole]] = relationship(back_populates="principal", lazy="selectin")


class PrincipalRole(Base):
    """A role a principal holds. The composite key and the CHECK together let only humans be reviewers."""

    __tablename__ = "principal_roles"
    __table_args__ = (
        ForeignKeyConstraint(["principal_id", "principal_kind"], ["principals.id", "principals.kind"]),
        one_of("role", Role),
        CheckConstraint("role <> 'reviewer' OR principal_kind = 'human'", name="reviewer_is_human"),
    )

    principal_id: Mapped[int] = mapped_column(primary_key=True)
    role: Mapped[str] = mapped_column(String(16), primary_key=True)
    principal_kind: Mapped[str] = mapped_column(String(16))
    principal: Mapped[Principal] = relationship(back_populates="roles")


class LoginSession(Base):
    """A login link, cookie or bearer token. Only the sha256 of its secret is stored."""

    __tablename__ = "sessions"
    __table_args__ = (one_of("kind", SessionKind),)

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    principal_id: Mapped[int] = mapped_column(ForeignKey("principals.id"), index=True)
    token_hash: Mapped[str] = mapped_column(String(64), unique=True)
    csrf_token: Mapped[str | None] = mapped_column(String(64))
    label: Mapped[str] = mapped_column(String(120), default="")
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    principal: Mapped[Principal] = relationship(lazy="joined")


class EventStream(Base):
    """What somebody follows, and the number of its newest event; its row's lock orders who writes to it."""

    __tablename__ = "event_streams"

    stream: Mapped[str] = mapped_column(String(80), primary_key=True)
    last_number: Mapped[int] = mapped_column(BigInteger)


class OutboxEvent(Base):
    """Something happened; written in the transaction that made it happen, read by stream in order of `number`.

    The first release wrote neither `stream` nor `number`: a row without them is told to nobody.
    """

    __tablename__ = "outbox_events"
    __table_args__ = (Index(None, "subject_kind", "subject_id"), UniqueConstraint("stream", "number"))

    id: Mapped[int] = mapped_column(primary_key=True)
    stream: Mapped[str | None] = mapped_column(String(80))
    number: Mapped[int | None] = mapped_column(BigInteger)
    topic: Mapped[str] = mapped_column(String(64))
    subject_kind: Mapped[str] = mapped_column(String(32))
    subject_id: Mapped[str] = mapped_column(String(64))
    request_id: Mapped[str | None] = mapped_column(String(36))
    payload: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime]


class Artefact(Base):
    """A stored file, named by the sha256 of its content. The row exists only after the file is on disk."""

    __tablename__ = "artefacts"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    media_type: Mapped[str] = mapped_column(String(80))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]


class ArtefactContent(Base):
    """The content of an artefact, where the database and not a folder keeps it."""

    __tablename__ = "artefact_contents"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class SettingRow(Base):
    """A fact about this database itself: the demo mark, whether the queue is paused."""

    __tablename__ = "settings_kv"

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[Any] = mapped_column(JSON)
    reason: Mapped[str] = mapped_column(Text, default="")


class RateWindow(Base):
    """How often a caller (`principal N`, `address A`) wrote in the newest minute it wrote in, since 1970."""

    __tablename__ = "rate_windows"

    caller: Mapped[str] = mapped_column(String(80), primary_key=True)
    minute: Mapped[int]
    count: Mapped[int]
