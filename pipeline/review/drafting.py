"""What a drafter reaches in the database: its trajectory, saved step by step, and its budget, reserved first."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from agents.errors import BudgetExhausted
from pipeline.database.facts import DRAFTING_STOPPED, get_fact, set_fact
from pipeline.database.unit_of_work import database_now, unit_of_work
from pipeline.review import repository
from pipeline.review.models import SCRIPTED, BudgetEntry, Trajectory, TrajectoryStep

LEDGER_LOCK = 2
"""The first key of the advisory lock on the ledger; 1 is the memory of a machine (`pipeline.work.memory`)."""


class StoredTrajectory:
    """`agents.types.TrajectoryStore` on the database: each call is one committed step of one trajectory."""

    def __init__(self, run_id: int | None, model: str) -> None:
        self.id = uuid.uuid4().hex
        self._run_id, self._model = run_id, model

    def __call__(self, step: dict[str, Any]) -> str:
        """Save one step; returns the trajectory's id."""
        with unit_of_work() as session:
            now = database_now(session)
            if repository.get_trajectory(session, self.id) is None:
                scripted = self._model == SCRIPTED
                session.add(
                    Trajectory(id=self.id, run_id=self._run_id, model=self._model, scripted=scripted, created_at=now)
                )
                session.flush()
            position = repository.next_step(session, self.id)
            session.add(TrajectoryStep(trajectory_id=self.id, position=position, data=step, created_at=now))
        return self.id


@dataclass(frozen=True)
class Budgets:
    """Limits in US dollars: of service and requester per day, of a request in all; None is no limit of its own."""

    daily: float
    requester_daily: float | None = None
    request: float | None = None


class StoredBudget:
    """`agents.drafters.llm.budget.BudgetLedger` on the database: limits in US dollars, by the database's day.

    Reservations are made one at a time, whatever the database: two that read one sum could exceed a limit together.
    """

    def __init__(self, budgets: Budgets, run_id: int | None = None) -> None:
        self._budgets, self._run_id = budgets, run_id

    def reserve(self, *, model: str, cost_usd: float, tokens: int) -> str:
        """Reserve before a call. Raises `BudgetExhausted` if a limit would be exceeded or drafting is stopped."""
        with unit_of_work() as session:
            one_at_a_time(session)
            if is_stopped(session):
                raise BudgetExhausted("drafting is stopped: `spyre-factory drafting start` lets it go on")
            now = database_now(session)
            day = now.date().isoformat()
            for name, limit, charged in self._charged(session, day):
                if charged + cost_usd > limit:
                    raise BudgetExhausted(
                        f"the {name} of {limit:.2f} USD does not cover another {cost_usd:.4f} after {charged:.4f}"
                    )
            entry = BudgetEntry(
                day=day, purpose=model, run_id=self._run_id, reserved_usd=cost_usd, tokens=tokens, created_at=now
            )
            session.add(entry)
            session.flush()
            return str(entry.id)

    def _charged(self, session: Session, day: str) -> Iterator[tuple[str, float, float]]:
        yield "daily budget", self._budgets.daily, repository.charged_usd(session, day)
        run = None if self._run_id is None else repository.get_run(session, self._run_id)
        if run is None:
            return
        if run.requester is not None and self._budgets.requester_daily is not None:
            charged = repository.charged_to_requester(session, run.requester, day)
            yield f"daily budget of requester {run.requester!r}", self._budgets.requester_daily, charged
        if run.request_id is not None and self._budgets.request is not None:
            charged = repository.charged_to_request(session, run.request_id)
            yield f"budget of request {run.request_id}", self._budgets.request, charged

    def settle(self, reservation: str, *, cost_usd: float | None, tokens: int | None) -> None:
        """Store what the call did cost; None leaves the reserved amount charged."""
        with unit_of_work() as session:
            entry = repository.get_reservation(session, int(reservation))
            entry.settled_usd = cost_usd
            entry.tokens = entry.tokens if tokens is None else tokens
            entry.settled_at = database_now(session)


def one_at_a_time(session: Session) -> None:
    """Hold the ledger until the transaction ends. On SQLite a writing transaction already does."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:n, hashtext('budget_ledger'))"), {"n": LEDGER_LOCK})


def stop_drafting(session: Session, why: str = "") -> None:
    """Let no call to a language model begin; one that runs goes on to its end and is settled."""
    set_fact(session, DRAFTING_STOPPED, True, why)


def start_drafting(session: Session) -> None:
    """Let calls begin again."""
    set_fact(session, DRAFTING_STOPPED, False)


def is_stopped(session: Session) -> bool:
    """True while no call to a language model may begin."""
    return bool(get_fact(session, DRAFTING_STOPPED, False))
