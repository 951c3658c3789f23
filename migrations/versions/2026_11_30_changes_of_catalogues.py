"""What entered, left and moved between two listings of one catalogue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_changes"
down_revision = "2026_11_30_blind"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "catalogue_changes",
        sa.Column("snapshot_id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("change", sa.String(length=16), nullable=False),
        sa.Column("rank_before", sa.Integer(), nullable=True),
        sa.Column("rank_after", sa.Integer(), nullable=True),
        sa.CheckConstraint("change IN ('entered', 'left', 'moved')", name=op.f("ck_catalogue_changes_change_known")),
        sa.ForeignKeyConstraint(
            ["snapshot_id"], ["catalogue_snapshots.id"], name=op.f("fk_catalogue_changes_snapshot_id")
        ),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_catalogue_changes_model_id")),
        sa.PrimaryKeyConstraint("snapshot_id", "model_id", name=op.f("pk_catalogue_changes")),
    )


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("catalogue_changes")
