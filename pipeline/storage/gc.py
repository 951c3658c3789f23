"""`gc`: what an installation may forget. Whatever an adapter, a candidate that waits or a status rests on stays.

Rows go first and files after the commit: a file without a row is found by the next run, never the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import Session

from pipeline.database.artefacts import drop_content
from pipeline.database.models import Artefact, LoginSession, RateWindow
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.notices.models import Message, MessageState
from pipeline.releases.models import Adapter
from pipeline.requests.models import IdempotencyKey
from pipeline.review.models import CandidateRow, CandidateState, EvidenceRow
from pipeline.settings import Settings
from pipeline.sweeps.models import CheckpointStatus
from pipeline.work.models import Run

GRACE = timedelta(days=1)
"""What nothing names may belong to a transaction that has not ended."""
FORGOTTEN = timedelta(days=30)
"""How long ended sessions and delivered messages are kept."""
LOG, BATCH = "log", 500
NEEDED = (CandidateState.WAITING, CandidateState.RELEASED, CandidateState.WITHDRAWN)


@dataclass
class Collected:
    """What went (or would go): how many of each kind, and bytes of files and contents."""

    counts: dict[str, int] = field(default_factory=dict)
    bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"counts": self.counts, "bytes": self.bytes}


def collect(settings: Settings, *, dry_run: bool = False) -> Collected:
    """Remove what is past its retention; with `dry_run` only count it. Safe to repeat and beside a running service."""
    done = Collected()
    with reading() as session:
        artefacts = list(_removable(session, settings, database_now(session)))
    done.counts["artefacts"], done.bytes = len(artefacts), sum(row.size_bytes for row in artefacts)
    _rows(done, dry_run)
    stray, logs = list(_stray(settings)), list(_old_logs(settings))
    done.counts |= {"files that no row names": len(stray), "logs": len(logs)}
    done.bytes += sum(path.stat().st_size for path in (*stray, *logs))
    if not dry_run:
        _drop_artefacts(artefacts)
        for path in (*stray, *logs):
            path.unlink(missing_ok=True)
    return done


def _removable(session: Session, settings: Settings, now: datetime) -> Iterator[Artefact]:
    """Artefacts past the retention of their kind, or that nothing names, and that nothing needs."""
    needed, named = _needed(session), _named(session)
    for row in session.scalars(select(Artefact).order_by(Artefact.digest)):
        days = settings.retention_days.get(row.kind)
        past = days is not None and row.created_at < now - timedelta(days=days)
        lost = row.digest not in named and row.created_at < now - GRACE
        if (past or lost) and row.digest not in needed:
            yield row


def _needed(session: Session) -> set[str]:
    """Digests that adapters, candidates before or after a release, and the runs behind today's statuses name."""
    kept = select(EvidenceRow.artefacts).join(CandidateRow, CandidateRow.id == EvidenceRow.candidate_id)
    kept = kept.where(CandidateRow.state.in_(NEEDED))
    speaking = select(Run.artefacts).join(CheckpointStatus, CheckpointStatus.run_id == Run.id)
    return _manifests(session) | _digests(session.scalars(kept)) | _digests(session.scalars(speaking))


def _named(session: Session) -> set[str]:
    """Digests that any run or evidence names, and those of adapters' manifests."""
    runs, evidence = session.scalars(select(Run.artefacts)), session.scalars(select(EvidenceRow.artefacts))
    return _manifests(session) | _digests(runs) | _digests(evidence)


def _manifests(session: Session) -> set[str]:
    return {digest for digest in session.scalars(select(Adapter.artefact_digest)) if digest is not None}


def _digests(lists: Iterable[list[Any] | None]) -> set[str]:
    return {str(item["digest"]) for items in lists for item in items or ()}


def _drop_artefacts(artefacts: list[Artefact]) -> None:
    """In portions: runs that named them no longer do, so that what passed still has all it names."""
    gone = {row.digest for row in artefacts}
    if gone:
        with unit_of_work() as session:
            for run in session.scalars(select(Run)):
                left = [item for item in run.artefacts or () if item["digest"] not in gone]
                if len(left) != len(run.artefacts or ()):
                    run.artefacts = left
    ordered = sorted(gone)
    for start in range(0, len(ordered), BATCH):
        with unit_of_work() as session:
            files = drop_content(session, ordered[start : start + BATCH])
        for path in files:
            path.unlink(missing_ok=True)


def _rows(done: Collected, dry_run: bool) -> None:
    """Keys, sessions, messages and counters that have run out."""
    with (reading if dry_run else unit_of_work)() as session:
        now = database_now(session)
        ended = or_(LoginSession.expires_at < now - FORGOTTEN, LoginSession.revoked_at < now - FORGOTTEN)
        for what, table, over in (
            ("idempotency keys", IdempotencyKey, IdempotencyKey.expires_at < now),
            ("ended sessions", LoginSession, ended),
            ("sent messages", Message, (Message.state == MessageState.SENT) & (Message.finished_at < now - FORGOTTEN)),
            ("counters of writes", RateWindow, RateWindow.minute < int(now.timestamp() // 60) - 60),
        ):
            done.counts[what] = session.scalar(select(func.count()).select_from(table).where(over)) or 0
            if not dry_run:
                session.execute(delete(table).where(over))


def _stray(settings: Settings) -> Iterator[Path]:
    """Files of the store that no row names, parts of broken writes among them, once they are a day old."""
    root, before = settings.data_dir / "artefacts", time.time() - GRACE.total_seconds()
    found = {path.parent.name + path.name: path for path in root.glob("??/*") if path.stat().st_mtime < before}
    with reading() as session:
        stored = set(session.scalars(select(Artefact.digest))) if found else set()
    yield from (path for digest, path in found.items() if digest not in stored)


def _old_logs(settings: Settings) -> Iterator[Path]:
    days = settings.retention_days.get(LOG)
    before = time.time() - (days or 0) * 86_400
    logs = (settings.data_dir / "logs").glob("*.log*")
    yield from (path for path in logs if days is not None and path.stat().st_mtime < before)
