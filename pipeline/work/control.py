"""Pause, resume and cancel: what an operator or a requester does to the queue. Rows only; no process is signalled.

A cancelled run that is being worked on loses its lease: its worker notices at the next renewal and ends the child.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from pipeline.database.events import emit
from pipeline.database.facts import QUEUE_PAUSED, get_fact, set_fact
from pipeline.database.unit_of_work import database_now
from pipeline.sweeps.models import Sweep, SweepRun, SweepState
from pipeline.work import repository
from pipeline.work.models import ACTIVE_STATES, Lane, Run, RunState


class Cancelled(NamedTuple):
    """Runs that ended, and runs that go on because another sweep or request needs them."""

    ended: list[int]
    kept: list[int]


def pause_queue(session: Session, why: str = "") -> None:
    """Let no worker claim anything; what runs goes on to its end."""
    set_fact(session, QUEUE_PAUSED, True, why)


def resume_queue(session: Session) -> None:
    """Let workers claim again. Messages that were thrown away meanwhile are sent again at once."""
    set_fact(session, QUEUE_PAUSED, False)
    repository.mark_unsent(session, None)


def is_paused(session: Session) -> bool:
    """True while no worker may claim."""
    return bool(get_fact(session, QUEUE_PAUSED, False))


def cancel_sweep(session: Session, sweep: Sweep) -> Cancelled:
    """End a sweep and every run that only it waits for. A sweep that has ended stays as it is."""
    if sweep.state != SweepState.RUNNING:
        return Cancelled([], [])
    sweep.state, sweep.finished_at = SweepState.CANCELLED, database_now(session)
    session.flush()
    active = list(session.scalars(_active_runs_of(sweep).with_for_update(of=Run)))
    needed = _needed_elsewhere(session, [run.id for run in active])
    ended = [run for run in active if run.id not in needed]
    for run in active:
        if run.id in needed and run.request_id == sweep.request_id:
            _give_up_turn(run, needed[run.id])
    _end(session, ended)
    emit(session, "sweep.cancelled", "sweep", sweep.id, request_id=sweep.request_id, runs=len(ended))
    return Cancelled([run.id for run in ended], sorted(needed))


def cancel_everything(session: Session) -> Cancelled:
    """End every running sweep and every run that has not ended."""
    for sweep in session.scalars(select(Sweep).where(Sweep.state == SweepState.RUNNING)):
        cancel_sweep(session, sweep)
    left = list(session.scalars(select(Run).where(Run.state.in_(ACTIVE_STATES)).with_for_update()))
    _end(session, left)
    return Cancelled([run.id for run in left], [])


def _active_runs_of(sweep: Sweep) -> Select[Run]:
    linked = select(SweepRun.run_id).where(SweepRun.sweep_id == sweep.id)
    return select(Run).where(Run.id.in_(linked), Run.state.in_(ACTIVE_STATES)).order_by(Run.id)


def _needed_elsewhere(session: Session, run_ids: Sequence[int]) -> dict[int, Lane]:
    """Runs that another running sweep needs, with the lane that sweep gives them."""
    query = (
        select(SweepRun.run_id, Sweep.request_id)
        .join(Sweep, Sweep.id == SweepRun.sweep_id)
        .where(SweepRun.run_id.in_(run_ids), Sweep.state == SweepState.RUNNING)
    )
    found: dict[int, Lane] = {}
    for run_id, request_id in session.execute(query):
        found[run_id] = max(found.get(run_id, Lane.SWEEP), Lane.REQUEST if request_id else Lane.SWEEP)
    return found


def _give_up_turn(run: Run, lane: Lane) -> None:
    if run.lane == Lane.REQUEST and lane != Lane.REQUEST:
        run.lane, run.requester = lane, None


def _end(session: Session, runs: Sequence[Run]) -> None:
    now = database_now(session)
    for run in runs:
        run.state, run.finished_at, run.reason = RunState.CANCELLED, now, "Cancelled: nobody waits for it any more."
        run.lease_owner = run.lease_expires_at = run.sent_at = run.not_before = None
        run.fence += 1
        emit(session, "run.cancelled", "run", run.id, request_id=run.request_id, stage=run.stage)
    session.flush()
