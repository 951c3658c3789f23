"""Scheduled work: the catalogue is listed, and the newest one swept, once per period, whoever runs the dispatcher.

A period is a row with a unique key, so two dispatchers, or one that was started again, make it once. A chore has a
lease and a fencing number as runs have. It is done by a child, `python -m pipeline.work.chores ID FENCE`, because the
Hub may take minutes to answer.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

import structlog
from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from pipeline.database.insert import insert_or_return
from pipeline.database.unit_of_work import database_now, unit_of_work
from pipeline.errors import FactoryError
from pipeline.settings import Settings, get_settings
from pipeline.work.errors import LeaseLost
from pipeline.work.models import Chore, Outcome, RunState
from pipeline.work.process import run_child
from pipeline.work.results import cut

LEASE_S = 60.0
MAX_ATTEMPTS = 3
RETRY_S = 300.0
TIMEOUT_S = 1_800.0
MEMORY_MB = 2_048


class ChoreLease(NamedTuple):
    """The right to do a chore; `fence` proves it."""

    chore_id: int
    name: str
    fence: int


def plan(session: Session, settings: Settings) -> None:
    """Make the rows of the periods that have begun. A period that passed while nothing ran is not made up for."""
    now = database_now(session)
    for name, hours in (("refresh", settings.catalog_refresh_hours), ("sweep", settings.sweep_hours)):
        if hours > 0:
            period = int(now.timestamp() // (hours * 3600))
            insert_or_return(session, Chore, {"name": name, "period": f"{hours:g} h {period}"}, {"created_at": now})


def claim(session: Session, owner: str) -> ChoreLease | None:
    """Lease the oldest chore that is due; None if there is none."""
    now = database_now(session)
    lost = (Chore.state == RunState.CLAIMED) & (Chore.lease_expires_at < now)
    due = (Chore.state == RunState.QUEUED) & or_(Chore.not_before.is_(None), Chore.not_before <= now)
    chosen = select(Chore.id).where(or_(lost, due)).order_by(Chore.id).limit(1).with_for_update(skip_locked=True)
    statement = (
        update(Chore)
        .where(Chore.id == chosen.scalar_subquery(), Chore.state != RunState.DONE)
        .values(
            state=RunState.CLAIMED,
            lease_owner=owner,
            lease_expires_at=now + timedelta(seconds=LEASE_S),
            fence=Chore.fence + 1,
            attempts=Chore.attempts + 1,
        )
        .returning(Chore.id, Chore.name, Chore.fence)
        .execution_options(synchronize_session=False)
    )
    row = session.execute(statement).first()
    return None if row is None else ChoreLease(row.id, row.name, row.fence)


def _leased(session: Session, lease: ChoreLease) -> Chore:
    query = select(Chore).where(Chore.id == lease.chore_id, Chore.fence == lease.fence)
    found = session.scalar(query.where(Chore.state == RunState.CLAIMED).with_for_update())
    if found is None:
        raise LeaseLost(f"chore {lease.chore_id}: the lease with fencing number {lease.fence} is no longer valid")
    return found


def renew(session: Session, lease: ChoreLease) -> None:
    """Push the end of the lease back. Raises `LeaseLost`."""
    _leased(session, lease).lease_expires_at = database_now(session) + timedelta(seconds=LEASE_S)


def finish(session: Session, lease: ChoreLease, reason: str = "") -> None:
    """End a chore that was done. Raises `LeaseLost`."""
    _end(session, _leased(session, lease), Outcome.PASSED, reason)


def fail(session: Session, lease: ChoreLease, reason: str) -> None:
    """Our fault: tried again later, given up after `MAX_ATTEMPTS`. Raises `LeaseLost`."""
    chore = _leased(session, lease)
    if chore.attempts >= MAX_ATTEMPTS:
        _end(session, chore, Outcome.INFRA, reason)
        return
    chore.state, chore.reason, chore.lease_owner, chore.lease_expires_at = RunState.QUEUED, cut(reason), None, None
    chore.not_before = database_now(session) + timedelta(seconds=RETRY_S * chore.attempts)
    session.flush()


def _end(session: Session, chore: Chore, outcome: Outcome, reason: str) -> None:
    chore.state, chore.outcome, chore.reason = RunState.DONE, outcome, cut(reason)
    chore.lease_owner, chore.lease_expires_at, chore.finished_at = None, None, database_now(session)
    session.flush()


def free_leases(session: Session) -> None:
    """Give back every chore: whoever held one is known to be gone."""
    statement = update(Chore).where(Chore.state == RunState.CLAIMED)
    values = {"state": RunState.QUEUED, "lease_owner": None, "lease_expires_at": None, "attempts": Chore.attempts - 1}
    session.execute(statement.values(**values).execution_options(synchronize_session=False))


def last_failure(session: Session) -> Chore | None:
    """The newest chore, if it was given up: the dashboard says so."""
    newest = session.scalar(select(func.max(Chore.id)).where(Chore.state == RunState.DONE))
    chore = session.get(Chore, newest) if newest else None
    return chore if chore is not None and chore.outcome == Outcome.INFRA else None


class ChoreRunner:
    """Plans and does chores for a dispatcher, one at a time, beside its turns."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._at_work: threading.Thread | None = None

    def turn(self) -> None:
        """Plan; begin the next chore unless one is being done."""
        if not (self._settings.catalog_refresh_hours or self._settings.sweep_hours):
            return
        with unit_of_work() as session:
            plan(session, self._settings)
            busy = self._at_work is not None and self._at_work.is_alive()
            lease = None if busy else claim(session, f"dispatcher:{os.getpid()}")
        if lease is not None:
            self._at_work = threading.Thread(target=do, args=(lease,), daemon=True)
            self._at_work.start()


def do(lease: ChoreLease) -> None:
    """Run the chore's child; what it could not do is stored as our fault."""
    argv = [sys.executable, "-m", "pipeline.work.chores", str(lease.chore_id), str(lease.fence)]
    try:
        done = run_child(
            argv, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, env=os.environ, tick=lambda: _renew(lease), tick_s=15.0
        )
        if not done.ok:
            with unit_of_work() as session:
                fail(session, lease, done.reason)
    except (FactoryError, OSError) as problem:
        structlog.get_logger().warning("chore.lost", chore=lease.chore_id, detail=str(problem))


def _renew(lease: ChoreLease) -> None:
    with unit_of_work() as session:
        renew(session, lease)


def _refresh(lease: ChoreLease, settings: Settings) -> None:
    from pipeline.catalogue.service import refresh
    from pipeline.sweeps.catalogue_store import open_store

    stored = refresh(open_store(), settings.scheduled_top)
    with unit_of_work() as session:
        finish(session, lease, f"snapshot {stored.snapshot_id}: {stored.listed} models listed")


def _sweep(lease: ChoreLease, settings: Settings) -> None:
    from pipeline.sweeps.schemas import SweepOptions
    from pipeline.sweeps.service import sweep_latest

    options = SweepOptions(settings.profile, releases=settings.releases, top=settings.scheduled_top)
    with unit_of_work() as session:
        started = sweep_latest(session, options)
        finish(session, lease, f"sweep {started.id}" if started else "no catalogue has been listed yet")


CHORES: dict[str, Callable[[ChoreLease, Settings], None]] = {"refresh": _refresh, "sweep": _sweep}


def main(arguments: Sequence[str]) -> int:
    """The child: do the chore with this number under this fencing number. Its last line of error is the reason."""
    chore_id, fence = (int(argument) for argument in arguments)
    with unit_of_work() as session:
        lease = ChoreLease(chore_id, session.get_one(Chore, chore_id).name, fence)
    try:
        CHORES[lease.name](lease, get_settings())
    except FactoryError as problem:
        print(problem, file=sys.stderr)  # noqa: T201 - the parent stores it as the reason
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
