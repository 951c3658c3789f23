"""Reviews are history: the database itself refuses to change or delete one."""

from __future__ import annotations

from alembic import op

revision = "2026_11_30_history"
down_revision = "2026_11_30_requests"
branch_labels = None
depends_on = None

TEXT = "the history of reviews is append-only"
FUNCTION = f"""
CREATE FUNCTION refuse_change_of_reviews() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '{TEXT}' USING ERRCODE = 'integrity_constraint_violation'; END $$
"""
UP = {
    "sqlite": tuple(
        f"CREATE TRIGGER reviews_no_{what} BEFORE {what.upper()} ON reviews BEGIN SELECT RAISE(ABORT, '{TEXT}'); END"
        for what in ("update", "delete")
    ),
    "postgresql": (
        FUNCTION,
        "CREATE TRIGGER reviews_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reviews"
        " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_reviews()",
    ),
}
DOWN = {
    "sqlite": ("DROP TRIGGER reviews_no_update", "DROP TRIGGER reviews_no_delete"),
    "postgresql": ("DROP TRIGGER reviews_append_only ON reviews", "DROP FUNCTION refuse_change_of_reviews()"),
}


def upgrade() -> None:
    """To the tables of this version."""
    for statement in UP[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    """Back to the tables before."""
    for statement in DOWN[op.get_bind().dialect.name]:
        op.execute(statement)
