"""The order of the queue, cancelled runs, scheduled chores."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_queue"
down_revision = "2026_11_29_first"
branch_labels = None
depends_on = None

STATES, BEFORE = "state IN ('queued', 'claimed', 'done', 'cancelled')", "state IN ('queued', 'claimed', 'done')"


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("lane", sa.Integer(), nullable=False, server_default="0"))
        runs.add_column(sa.Column("requester", sa.String(length=64), nullable=True))
        runs.add_column(sa.Column("downloads", sa.BigInteger(), nullable=False, server_default="0"))
        runs.drop_constraint(op.f("ck_runs_state_known"), type_="check")
        runs.create_check_constraint(op.f("ck_runs_state_known"), STATES)
        runs.drop_index("ix_runs_claimable")
        runs.create_index("ix_runs_order", ["state", "lane", "priority", "downloads", "id"])
        runs.create_index("ix_runs_turn", ["requester", "started_at"])
    op.create_table(
        "chores",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("period", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("lease_owner", sa.String(length=120), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("name IN ('refresh', 'sweep')", name=op.f("ck_chores_name_known")),
        sa.CheckConstraint(STATES, name=op.f("ck_chores_state_known")),
        sa.CheckConstraint("outcome IN ('passed', 'failed', 'infra', 'unknown')", name=op.f("ck_chores_outcome_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chores")),
        sa.UniqueConstraint("name", "period", name=op.f("uq_chores_name_period")),
    )


def downgrade() -> None:
    """Back to the tables before; cancelled runs become runs that ended through our fault."""
    op.drop_table("chores")
    op.execute("UPDATE runs SET state = 'done', outcome = 'infra' WHERE state = 'cancelled'")
    with op.batch_alter_table("runs") as runs:
        runs.drop_index("ix_runs_turn")
        runs.drop_index("ix_runs_order")
        runs.create_index("ix_runs_claimable", ["state", "priority", "id"])
        runs.drop_constraint(op.f("ck_runs_state_known"), type_="check")
        runs.create_check_constraint(op.f("ck_runs_state_known"), BEFORE)
        for name in ("downloads", "requester", "lane"):
            runs.drop_column(name)
