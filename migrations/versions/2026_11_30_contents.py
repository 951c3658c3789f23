"""Artefacts may be kept in the database, which several hosts share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_contents"
down_revision = "2026_11_30_withdrawals"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "artefact_contents",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_artefact_contents")),
    )


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("artefact_contents")
