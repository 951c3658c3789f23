"""Every query on bench scores."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.bench.models import BenchScore


def newest_scores(session: Session) -> Sequence[BenchScore]:
    """The newest score of each model and split."""
    newest = select(func.max(BenchScore.id)).group_by(BenchScore.model, BenchScore.drafter, BenchScore.split)
    return session.scalars(select(BenchScore).where(BenchScore.id.in_(newest)).order_by(BenchScore.id)).all()
