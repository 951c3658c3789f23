"""Checkpoints of one group share the verdict of the one that was executed on synthetic weights."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_groups"
down_revision = "2026_11_30_chain"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.add_column("checkpoints", sa.Column("group_key", sa.String(length=64), nullable=True))
    op.create_index(op.f("ix_checkpoints_group_key"), "checkpoints", ["group_key"])
    with op.batch_alter_table("checkpoint_status") as status:
        status.add_column(sa.Column("derived_from", sa.Integer(), nullable=True))
        name = op.f("fk_checkpoint_status_derived_from_checkpoints")
        status.create_foreign_key(name, "checkpoints", ["derived_from"], ["id"])
        status.create_index(op.f("ix_checkpoint_status_derived_from"), ["derived_from"])


def downgrade() -> None:
    """Back to the tables before."""
    with op.batch_alter_table("checkpoint_status") as status:
        status.drop_index(op.f("ix_checkpoint_status_derived_from"))
        status.drop_constraint(op.f("fk_checkpoint_status_derived_from_checkpoints"), type_="foreignkey")
        status.drop_column("derived_from")
    op.drop_index(op.f("ix_checkpoints_group_key"), "checkpoints")
    op.drop_column("checkpoints", "group_key")
