"""The order of the queue, from the rows alone: lanes first, requesters in turn, then place and downloads.

A request goes before a re-run, a re-run before a sweep. Among requests the requester who was served longest ago is
next, so that one with a thousand models waits behind one with a single model only for single runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from pipeline.work.models import Lane, Run, RunState

ORDER: tuple[Any, ...] = (Run.lane.desc(), Run.priority.desc(), Run.downloads.desc(), Run.id)
"""The order within one requester, and everywhere below the lane of requests."""


class Waiting(NamedTuple):
    """A requester with queued runs: how many, and when one of theirs was last begun (None: never)."""

    requester: str
    runs: int
    served_at: datetime | None


def claimable(now: datetime) -> list[ColumnElement[bool]]:
    """What a run must be for a worker to take it now."""
    return [Run.state == RunState.QUEUED, or_(Run.not_before.is_(None), Run.not_before <= now)]


def whose_turn(session: Session, now: datetime) -> list[ColumnElement[bool]] | None:
    """Conditions on the runs of whoever is next; None if nothing can be claimed."""
    lane = session.scalar(select(Run.lane).where(*claimable(now)).order_by(Run.lane.desc()).limit(1))
    if lane is None:
        return None
    if lane != Lane.REQUEST:
        return [Run.lane == lane]
    turns = in_turn(session, claimable(now))
    return [Run.lane == lane, Run.requester == turns[0].requester] if turns else [Run.lane == lane]


def in_turn(session: Session, conditions: Sequence[ColumnElement[bool]]) -> list[Waiting]:
    """Requesters with runs in the lane of requests that meet the conditions, in the order of their turns."""
    queued = select(Run.requester, func.count(Run.id)).where(Run.lane == Lane.REQUEST, *conditions)
    rows = session.execute(queued.where(Run.requester.is_not(None)).group_by(Run.requester))
    counts = {str(requester): count for requester, count in rows}
    last = select(Run.requester, func.max(Run.started_at)).where(Run.requester.in_(counts)).group_by(Run.requester)
    served = dict(session.execute(last).all())
    found = [Waiting(requester, runs, served.get(requester)) for requester, runs in counts.items()]
    return sorted(found, key=lambda w: (w.served_at is not None, w.served_at or 0, w.requester))


def queued_before(session: Session, run: Run) -> int:
    """How many queued runs go before this one as things stand: nothing new comes, nothing is tried again later."""
    queued = [Run.state == RunState.QUEUED]
    higher = _count(session, *queued, Run.lane > run.lane)
    same = [*queued, Run.lane == run.lane, _earlier(run)]
    if run.lane != Lane.REQUEST or run.requester is None:
        return higher + _count(session, *same)
    mine = _count(session, *same, Run.requester == run.requester)
    turns = in_turn(session, queued)
    place = next((n for n, waiting in enumerate(turns) if waiting.requester == run.requester), len(turns))
    others = [(n, waiting) for n, waiting in enumerate(turns) if n != place]
    return higher + mine + sum(min(waiting.runs, mine + (n < place)) for n, waiting in others)


def _earlier(run: Run) -> ColumnElement[bool]:
    same_priority = Run.priority == run.priority
    return or_(
        Run.priority > run.priority,
        and_(same_priority, Run.downloads > run.downloads),
        and_(same_priority, Run.downloads == run.downloads, Run.id < run.id),
    )


def _count(session: Session, *conditions: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count(Run.id)).where(*conditions)) or 0
