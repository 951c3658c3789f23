"""Scores of the bench: one row per run of a drafter."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_scores"
down_revision = "2026_11_30_history"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "bench_scores",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=120), nullable=False),
        sa.Column("drafter", sa.String(length=16), nullable=False),
        sa.Column("split", sa.String(length=16), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=True),
        sa.Column("tasks_digest", sa.String(length=64), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.CheckConstraint("drafter IN ('rules', 'llm', 'null', 'echo')", name=op.f("ck_bench_scores_drafter_known")),
        sa.CheckConstraint("split IN ('public', 'fresh')", name=op.f("ck_bench_scores_split_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bench_scores")),
    )
    op.create_index(op.f("ix_bench_scores_model_split_id"), "bench_scores", ["model", "split", "id"])


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("bench_scores")
