"""Proposed rules: what accepted patches of language models generalise to, decided by a human."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_rules"
down_revision = "2026_11_30_hardware"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "rule_proposals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=120), nullable=False),
        sa.Column("scripted", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("principal_id", sa.Integer(), nullable=True),
        sa.Column("principal_kind", sa.String(length=16), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'accepted', 'rejected')", name=op.f("ck_rule_proposals_state_known")
        ),
        sa.CheckConstraint(
            "principal_kind IS NULL OR principal_kind = 'human'", name=op.f("ck_rule_proposals_decider_is_human")
        ),
        sa.CheckConstraint(
            "(state = 'waiting') = (principal_id IS NULL)", name=op.f("ck_rule_proposals_decided_by_somebody")
        ),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_rule_proposals_candidate_id")
        ),
        sa.ForeignKeyConstraint(
            ["principal_id", "principal_kind"], ["principals.id", "principals.kind"],
            name=op.f("fk_rule_proposals_principal_id_principal_kind"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rule_proposals")),
        sa.UniqueConstraint("digest", name=op.f("uq_rule_proposals_digest")),
    )  # fmt: skip
    op.create_index(op.f("ix_rule_proposals_candidate_id"), "rule_proposals", ["candidate_id"])
    op.create_index(op.f("ix_rule_proposals_state_id"), "rule_proposals", ["state", "id"])


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("rule_proposals")
