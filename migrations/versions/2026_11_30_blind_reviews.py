"""What reviewers said, without verdict and evidence, of candidates whose truth is known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_blind"
down_revision = "2026_11_30_contents"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    op.create_table(
        "blind_reviews",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("principal_id", sa.Integer(), nullable=False),
        sa.Column("known_bad", sa.Boolean(), nullable=False),
        sa.Column("answer", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("answer IN ('approve', 'reject')", name=op.f("ck_blind_reviews_answer_known")),
        sa.ForeignKeyConstraint(["candidate_id"], ["candidates.id"], name=op.f("fk_blind_reviews_candidate_id")),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name=op.f("fk_blind_reviews_principal_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_blind_reviews")),
        sa.UniqueConstraint("candidate_id", "principal_id", name=op.f("uq_blind_reviews_candidate_id_principal_id")),
    )


def downgrade() -> None:
    """Back to the tables before."""
    op.drop_table("blind_reviews")
