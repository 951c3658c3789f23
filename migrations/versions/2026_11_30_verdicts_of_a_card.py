"""Verdicts of a real card: one row per replay of evidence, apart from those of the simulator."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_hardware"
down_revision = "2026_11_30_groups"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "hardware_verdicts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("document", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("profile", sa.String(length=40), nullable=False),
        sa.Column("simulated", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "outcome IN ('passed', 'failed', 'infra', 'unknown')", name=op.f("ck_hardware_verdicts_outcome_known")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hardware_verdicts")),
    )
    op.create_index(op.f("ix_hardware_verdicts_document"), "hardware_verdicts", ["document"])


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("hardware_verdicts")
