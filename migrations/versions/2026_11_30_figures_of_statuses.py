"""A status carries its model's downloads and whether it is of the newest checkpoint: coverage is one table's sums."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_figures"
down_revision = "2026_11_30_replays"
branch_labels = None
depends_on = None

INDEX = "ix_checkpoint_status_figures"
COLUMNS = ["profile", "newest", "outcome", "supported", "scripted", "weights", "depth", "downloads"]


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    downloads = sa.Column("downloads", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("checkpoint_status", downloads)
    op.add_column("checkpoint_status", sa.Column("newest", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.execute(
        "UPDATE checkpoint_status SET downloads = (SELECT models.downloads FROM models JOIN checkpoints"
        " ON checkpoints.model_id = models.id WHERE checkpoints.id = checkpoint_status.checkpoint_id)"
    )
    newer = "SELECT 1 FROM checkpoints AS newer WHERE newer.model_id = mine.model_id AND newer.id > mine.id"
    older = f"SELECT mine.id FROM checkpoints AS mine WHERE EXISTS ({newer})"  # noqa: S608 - no value in it
    op.execute(f"UPDATE checkpoint_status SET newest = {_false()} WHERE checkpoint_id IN ({older})")  # noqa: S608
    op.create_index(INDEX, "checkpoint_status", COLUMNS)


def _false() -> str:
    return "false" if op.get_bind().dialect.name == "postgresql" else "0"


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_index(INDEX, "checkpoint_status")
    with op.batch_alter_table("checkpoint_status") as status:
        status.drop_column("newest")
        status.drop_column("downloads")
