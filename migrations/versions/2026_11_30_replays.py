"""Replays of evidence are runs of the queue: a stage of their own."""

from __future__ import annotations

from alembic import op

revision = "2026_11_30_replays"
down_revision = "2026_11_30_ends"
branch_labels = None
depends_on = None

BEFORE = "stage IN ('inspect', 'capture', 'execute', 'diagnose', 'draft', 'verify')"
STAGES = "stage IN ('inspect', 'capture', 'execute', 'diagnose', 'draft', 'verify', 'replay')"


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    with op.batch_alter_table("runs") as runs:
        runs.drop_constraint(op.f("ck_runs_stage_known"), type_="check")
        runs.create_check_constraint(op.f("ck_runs_stage_known"), STAGES)


def downgrade() -> None:
    """Back to the tables before; replays decided nothing and are forgotten."""
    op.execute("DELETE FROM runs WHERE stage = 'replay'")
    with op.batch_alter_table("runs") as runs:
        runs.drop_constraint(op.f("ck_runs_stage_known"), type_="check")
        runs.create_check_constraint(op.f("ck_runs_stage_known"), BEFORE)
