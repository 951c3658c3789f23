"""Requests: revision, callback, open once; idempotency keys with answers; events numbered per stream."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_requests"
down_revision = "2026_11_30_queue"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    with op.batch_alter_table("requests") as requests:
        requests.add_column(sa.Column("revision", sa.String(length=64), nullable=True))
        requests.add_column(sa.Column("open_key", sa.String(length=64), nullable=True))
        requests.add_column(sa.Column("callback_url", sa.Text(), nullable=True))
        requests.create_unique_constraint(op.f("uq_requests_open_key"), ["open_key"])
        requests.create_index(op.f("ix_requests_principal_id_created_at"), ["principal_id", "created_at"])
    with op.batch_alter_table("reviews") as reviews:
        reviews.add_column(sa.Column("request_id", sa.String(length=36), nullable=True))
        reviews.create_foreign_key(op.f("fk_reviews_request_id"), "requests", ["request_id"], ["id"])
        reviews.create_index(op.f("ix_reviews_request_id"), ["request_id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("requester", sa.String(length=64), nullable=False),
        sa.Column("route", sa.String(length=120), nullable=False),
        sa.Column("key", sa.String(length=120), nullable=False),
        sa.Column("body_digest", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("answer", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_keys")),
        sa.UniqueConstraint("requester", "route", "key", name=op.f("uq_idempotency_keys_requester_route_key")),
    )
    op.create_index(op.f("ix_idempotency_keys_expires_at"), "idempotency_keys", ["expires_at"])
    op.create_table(
        "event_streams",
        sa.Column("stream", sa.String(length=80), nullable=False),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream", name=op.f("pk_event_streams")),
    )
    with op.batch_alter_table("outbox_events") as events:
        events.add_column(sa.Column("stream", sa.String(length=80), nullable=True))
        events.add_column(sa.Column("number", sa.BigInteger(), nullable=True))
        events.create_unique_constraint(op.f("uq_outbox_events_stream_number"), ["stream", "number"])


def downgrade() -> None:
    """Back to the tables before."""
    with op.batch_alter_table("outbox_events") as events:
        events.drop_constraint(op.f("uq_outbox_events_stream_number"), type_="unique")
        events.drop_column("number")
        events.drop_column("stream")
    op.drop_table("event_streams")
    op.drop_table("idempotency_keys")
    with op.batch_alter_table("reviews") as reviews:
        reviews.drop_index(op.f("ix_reviews_request_id"))
        reviews.drop_constraint(op.f("fk_reviews_request_id"), type_="foreignkey")
        reviews.drop_column("request_id")
    with op.batch_alter_table("requests") as requests:
        requests.drop_index(op.f("ix_requests_principal_id_created_at"))
        requests.drop_constraint(op.f("uq_requests_open_key"), type_="unique")
        for name in ("callback_url", "open_key", "revision"):
            requests.drop_column(name)
