"""The history of reviews as a chain: each row's digest covers the row and the digest of the one before.

The database refuses to change or delete a row (triggers); the chain shows it where somebody did it past them. Rows
that are older than the chain have no digest: they come before all that have one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.review.models import ReviewRow

FIRST = "0" * 64
"""What the first row follows."""
CHAIN_LOCK = 8_240_611
"""The advisory lock of PostgreSQL under which rows are added one after the other; SQLite has one writer anyway."""
COVERED = ("candidate_id", "principal_id", "principal_kind", "decision", "candidate_digest", "evidence_digest",
           "request_id", "reason")  # fmt: skip
TRIGGERS = {
    "sqlite": ("SELECT name FROM sqlite_master WHERE type = 'trigger'", ("reviews_no_update", "reviews_no_delete")),
    "postgresql": ("SELECT tgname FROM pg_trigger WHERE tgenabled IN ('O', 'A')", ("reviews_append_only",)),
}


def append_review(session: Session, row: ReviewRow) -> None:
    """Add a decision to the end of the chain."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": CHAIN_LOCK})
    newest = select(ReviewRow.digest).where(ReviewRow.digest.is_not(None)).order_by(ReviewRow.id.desc()).limit(1)
    row.previous_digest = session.scalar(newest) or FIRST
    row.digest = digest_of(row)
    session.add(row)
    session.flush()


def digest_of(row: ReviewRow) -> str:
    """sha256 over what the row says, when it was said, and the row before."""
    said = [getattr(row, name) for name in COVERED]
    said += [] if row.adapter_id is None else [row.adapter_id]
    return hashlib.sha256(canonical([row.previous_digest, *said, row.created_at.isoformat()])).hexdigest()


def history_is_whole(session: Session) -> Iterable[str]:
    """No review was changed, taken out or put in between, and the triggers that prevent it are there."""
    query, wanted = TRIGGERS[session.get_bind().dialect.name]
    missing = set(wanted) - set(session.scalars(text(query)))
    if missing:
        yield f"the history of reviews can be changed, triggers missing: {', '.join(sorted(missing))}"
    before: str | None = None
    for row in session.scalars(select(ReviewRow).order_by(ReviewRow.id)):
        if row.digest is None and before is None:
            continue
        if row.digest is None or row.digest != digest_of(row):
            yield f"changed after it was written, review: {row.id}"
        if row.previous_digest != (before or FIRST):
            yield f"does not follow the one before, review: {row.id}"
        before = row.digest or before
