"""The score table: reports of measured runs are stored and read by model. It needs no torch.

A report of the scripted endpoint measures the loop and no skill, one without an endpoint measures nothing: neither is
ever a row.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from pipeline.bench.models import BenchScore
from pipeline.bench.repository import newest_scores

NOT_MEASURED = "not measured"
LANGUAGE = "llm"
COLUMNS = ("model", "drafter", "split", "seed", "tasks_digest")


def is_measured(report: dict[str, Any]) -> bool:
    """Whether a report holds a score."""
    return report["overall"] != NOT_MEASURED


def store_score(session: Session, report: dict[str, Any]) -> BenchScore:
    """Adds the score of a report. Raises ValueError for one that measured nothing."""
    if not is_measured(report):
        raise ValueError(f"{report['drafter']} was not measured: {report['reason']}")
    row = BenchScore(
        **{name: report[name] for name in COLUMNS},
        tasks=report["overall"]["tasks"],
        at=datetime.fromisoformat(report["at"]),
        data={key: report[key] for key in ("overall", "by_pattern", "results")},
    )
    session.add(row)
    session.flush()
    return row


def score_table(session: Session) -> list[dict[str, Any]]:
    """The newest score of each model and split, best first, with the figures by pattern."""
    rows = [_row(score) for score in newest_scores(session)]
    return sorted(rows, key=lambda row: (-row["share_at_1"], row["model"], row["split"]))


def _row(score: BenchScore) -> dict[str, Any]:
    named = {name: getattr(score, name) for name in COLUMNS}
    return {**named, "at": score.at.isoformat(), **score.data["overall"], "by_pattern": score.data["by_pattern"]}
