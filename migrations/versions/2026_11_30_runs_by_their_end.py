"""The overview asks for the runs that ended lately: an index answers it."""

from __future__ import annotations

from alembic import op

revision = "2026_11_30_ends"
down_revision = "2026_11_30_changes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the tables of this version."""
    op.create_index("ix_runs_finished_at", "runs", ["finished_at"])


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_index("ix_runs_finished_at", "runs")
