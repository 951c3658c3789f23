"""What every page asks for, the newest checkpoint of a model and models by downloads, is read from indexes."""

from __future__ import annotations

from alembic import op

revision = "2026_11_30_newest"
down_revision = "2026_11_30_scores"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the tables of this version."""
    op.create_index("ix_checkpoints_model_id_id", "checkpoints", ["model_id", "id"])
    op.create_index("ix_models_downloads_id", "models", ["downloads", "id"])


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_index("ix_models_downloads_id", "models")
    op.drop_index("ix_checkpoints_model_id_id", "checkpoints")
