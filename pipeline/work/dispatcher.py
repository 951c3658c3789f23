"""The dispatcher: `python -m pipeline.work.dispatcher`. Sends messages for rows, and finds what was lost.

The order of work is decided here, from the rows; the broker holds at most `MESSAGES_PER_SLOT` messages per worker slot.
A row is marked as sent before its message is sent: a message lost in between, or by the broker, is sent again.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

import structlog
from kombu.exceptions import KombuError, OperationalError

from pipeline.database.faults import fault_point
from pipeline.database.unit_of_work import looking, unit_of_work
from pipeline.errors import EnvironmentProblem
from pipeline.notices.service import Courier
from pipeline.requests.service import close_finished_requests
from pipeline.settings import Settings, get_settings
from pipeline.sweeps.service import close_finished
from pipeline.work import flow, repository
from pipeline.work.broker import prepare_broker
from pipeline.work.chores import ChoreRunner
from pipeline.work.control import is_paused
from pipeline.work.logs import configure_logging
from pipeline.work.models import RunState
from pipeline.work.stopping import StopFlag
from pipeline.work.worker import has_free_disk

MESSAGES_PER_SLOT = 2
TURN_S = 0.2
SWEEP_EVERY_S = 2.0
RESEND_AFTER_LEASES = 1 / 6
"""A message not taken within this part of a lease while a slot is free is taken to be lost."""
RESEND_ANYWAY_S = 300.0
BROKER_ERRORS = (KombuError, OperationalError, OSError)


class Turn(NamedTuple):
    """What one turn did."""

    sent: int
    recovered: int


class Sender:
    """Sends messages over one connection, made anew when it broke: a connection for each costs more than sending it."""

    def __init__(self) -> None:
        self._connection: Any = None

    def send(self, run_id: int) -> None:
        """Send the message for a run; a broker that is away is not an error, the sweeper sends again."""
        from pipeline.work.tasks import app, run_stage

        for is_last in (False, True):
            try:
                self._connection = self._connection or app.connection_for_write()
                run_stage.apply_async(args=[run_id], connection=self._connection, retry=False)
                return
            except BROKER_ERRORS as error:
                self.close()
                if is_last:
                    structlog.get_logger().warning("message.not_sent", run=run_id, detail=str(error))

    def close(self) -> None:
        """Give the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*BROKER_ERRORS):
                connection.release()


def dispatch(settings: Settings, sender: Sender | None = None) -> int:
    """Send messages for the next runs until the broker holds enough; returns how many."""
    if not has_free_disk(settings):
        return 0
    with looking() as session:  # five times a second: one statement, by an index
        if not repository.has_unsent(session):
            return 0
    with unit_of_work() as session:
        if is_paused(session):
            return 0
        room = MESSAGES_PER_SLOT * settings.workers - repository.count_outstanding(session)
        chosen = repository.take_to_send(session, room) if room > 0 else []
    fault_point("sent_marked")
    used = sender or Sender()
    for run_id in chosen:
        used.send(run_id)
    if sender is None:
        used.close()
    return len(chosen)


def recover(settings: Settings) -> int:
    """Requeue what lost its lease, re-send what lost its message, close what is finished; returns how many runs."""
    with unit_of_work() as session:
        lost = flow.recover(session)
        busy = repository.count_in_state(session, RunState.CLAIMED) >= settings.workers
        lost_after_s = RESEND_ANYWAY_S if busy else RESEND_AFTER_LEASES * settings.lease_seconds
        unsent = repository.mark_unsent(session, lost_after_s)
        close_finished(session)
        close_finished_requests(session)
    if lost.requeued or lost.crashed or unsent:
        structlog.get_logger().info("runs.recovered", requeued=lost.requeued, crashed=lost.crashed, unsent=unsent)
    return len(lost.requeued) + len(lost.crashed) + unsent


def serve(stop: StopFlag, settings: Settings) -> None:
    """Take turns until told to stop. A database that is away is waited for."""
    next_sweep = 0.0
    chores, courier, sender = ChoreRunner(settings), Courier(settings), Sender()
    while not stop.is_set():
        try:
            if time.monotonic() >= next_sweep:
                recover(settings)
                chores.turn()
                courier.turn()
                next_sweep = time.monotonic() + SWEEP_EVERY_S
            dispatch(settings, sender)
        except EnvironmentProblem as problem:
            structlog.get_logger().warning("dispatcher.waits", detail=str(problem))
        stop.wait(TURN_S)
    sender.close()


def main() -> None:
    """Run the dispatcher until SIGTERM or SIGINT."""
    configure_logging()
    settings = get_settings()
    prepare_broker(settings)
    serve(StopFlag(), settings)


if __name__ == "__main__":
    main()
