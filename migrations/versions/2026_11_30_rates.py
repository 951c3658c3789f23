"""How often each caller wrote within the minute: the state of the rate limit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_rates"
down_revision = "2026_11_30_messages"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "rate_windows",
        sa.Column("caller", sa.String(length=80), nullable=False),
        sa.Column("minute", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("caller", name=op.f("pk_rate_windows")),
    )


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("rate_windows")
