"""A review may be about a bundled adapter, which has no candidate: its withdrawal stands in the history too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2026_11_30_withdrawals"
down_revision = "2026_11_30_rates"
branch_labels = None
depends_on = None

TEXT = "the history of reviews is append-only"
TRIGGERS = {
    f"reviews_no_{what}": f"CREATE TRIGGER reviews_no_{what} BEFORE {what.upper()} ON reviews "
    f"BEGIN SELECT RAISE(ABORT, '{TEXT}'); END"
    for what in ("update", "delete")
}
ONE_THING = "(candidate_id IS NULL) <> (adapter_id IS NULL)"


def upgrade() -> None:
    """Expand: the previous release must still run on the result."""
    _without_triggers()
    with op.batch_alter_table("reviews") as reviews:
        reviews.alter_column("candidate_id", existing_type=sa.Integer(), nullable=True)
        reviews.add_column(sa.Column("adapter_id", sa.Integer(), nullable=True))
        reviews.create_foreign_key(op.f("fk_reviews_adapter_id"), "adapters", ["adapter_id"], ["id"])
        reviews.create_check_constraint(op.f("ck_reviews_about_one_thing"), ONE_THING)
    op.create_index(op.f("ix_reviews_adapter_id"), "reviews", ["adapter_id"])
    _with_triggers()


def downgrade() -> None:
    """Back to the tables before: possible only while no bundled adapter was withdrawn."""
    _without_triggers()
    op.drop_index(op.f("ix_reviews_adapter_id"), "reviews")
    with op.batch_alter_table("reviews") as reviews:
        reviews.drop_constraint(op.f("ck_reviews_about_one_thing"), type_="check")
        reviews.drop_constraint(op.f("fk_reviews_adapter_id"), type_="foreignkey")
        reviews.drop_column("adapter_id")
        reviews.alter_column("candidate_id", existing_type=sa.Integer(), nullable=False)
    _with_triggers()


def _without_triggers() -> None:
    """SQLite makes the table anew, which its triggers would refuse and would not survive; PostgreSQL does not."""
    if op.get_bind().dialect.name == "sqlite":
        for name in TRIGGERS:
            op.execute(f"DROP TRIGGER {name}")


def _with_triggers() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for statement in TRIGGERS.values():
            op.execute(statement)
