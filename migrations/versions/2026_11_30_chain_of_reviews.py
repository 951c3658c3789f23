"""Each review's digest covers the one before; the unique key lets the history have one end only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_chain"
down_revision = "2026_11_30_newest"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the tables of this version. Columns are added in place: rebuilding the table would lose its triggers."""
    op.add_column("reviews", sa.Column("previous_digest", sa.String(64)))
    op.add_column("reviews", sa.Column("digest", sa.String(64)))
    op.create_index("ix_reviews_previous_digest", "reviews", ["previous_digest"], unique=True)


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_index("ix_reviews_previous_digest", "reviews")
    op.drop_column("reviews", "digest")
    op.drop_column("reviews", "previous_digest")
