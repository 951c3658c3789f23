"""Messages to the outside: callbacks of requests, notices to reviewers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_messages"
down_revision = "2026_11_30_rules"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "messages",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("topic", sa.String(length=64), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("principal_id", sa.Integer(), nullable=True),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("kind IN ('callback', 'notice')", name=op.f("ck_messages_kind_known")),
        sa.CheckConstraint("state IN ('waiting', 'sent', 'dead')", name=op.f("ck_messages_state_known")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_messages_principal_id")),
        sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=op.f("fk_messages_request_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index("ix_messages_due", "messages", ["state", "not_before"])
    for column in ("principal_id", "request_id"):
        op.create_index(op.f(f"ix_messages_{column}"), "messages", [column])


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("messages")
