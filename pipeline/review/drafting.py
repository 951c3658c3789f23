"""What a drafter reaches in the database: its trajectory, saved step by step, and its budget, reserved first."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from agents.errors import BudgetExhausted
from agents.redact import redactor_of
from pipeline.database.facts import DRAFTING_STOPPED, get_fact, set_fact
from pipeline.database.unit_of_work import database_now, unit_of_work
from pipeline.review import repository
from pipeline.review.models import SCRIPTED, BudgetEntry, Trajectory, TrajectoryStep

LEDGER_LOCK = 2
"""The first key of the advisory lock on the ledger; 1 is the memory of a machine (`pipeline.work.memory`)."""


class StoredTrajectory:
    """`agents.types.TrajectoryStore` on the database: each call is one committed step of one trajectory.

    A trajectory of the same run and place that has no end is gone on with: its process was killed.
    """

    def __init__(self, run_id: int | None, model: str, place: str = "") -> None:
        self._run_id, self._model = run_id, model
        self._redactor = redactor_of(None)
        self.id, self.earlier = _cut_off(run_id, place) or (uuid.uuid4().hex, ())

    def __call__(self, step: dict[str, Any]) -> str:
        """Save one step without secrets; returns the trajectory's id."""
        data = self._redactor.data(step)
        with unit_of_work() as session:
            now = database_now(session)
            trajectory = repository.get_trajectory(session, self.id) or self._begin(session, now)
            _count(trajectory, data)
            position = repository.next_step(session, self.id)
            session.add(TrajectoryStep(trajectory_id=self.id, position=position, data=data, created_at=now))
        return self.id

    def _begin(self, session: Session, now: datetime) -> Trajectory:
        begun = Trajectory(
            id=self.id, run_id=self._run_id, model=self._model, scripted=self._model == SCRIPTED,
            cost_usd=0.0, tokens=0, created_at=now,
        )  # fmt: skip
        session.add(begun)
        session.flush()
        return begun


def _count(trajectory: Trajectory, step: dict[str, Any]) -> None:
    """Add what the step cost. Once a part is unknown (None) the whole is; the end of a draft knows its failed tries."""
    if step["kind"] == "answer" and not step.get("replayed"):
        cost, tokens = step.get("cost_usd"), step.get("tokens")
        trajectory.cost_usd = None if trajectory.cost_usd is None or cost is None else trajectory.cost_usd + cost
        trajectory.tokens = None if trajectory.tokens is None or tokens is None else trajectory.tokens + tokens
    elif step["kind"] == "end" and "spent" in step:
        trajectory.cost_usd = step["spent"]["cost_usd"]


def _cut_off(run_id: int | None, place: str) -> tuple[str, tuple[dict[str, Any], ...]] | None:
    """Id and steps of the run's trajectory at this place that did not end; its saved answers are settled."""
    if run_id is None:
        return None
    with unit_of_work() as session:
        for trajectory in repository.trajectories_of_run(session, run_id):
            steps = tuple(step.data for step in trajectory.steps)
            if steps and steps[0].get("place") == place and steps[-1]["kind"] != "end":
                for step in steps:
                    _settle_saved(session, step)
                return trajectory.id, steps
    return None


def _settle_saved(session: Session, step: dict[str, Any]) -> None:
    """Settle the call of a saved answer that was killed before it could be: the answer says what it cost."""
    if step["kind"] != "answer" or step.get("reservation") is None or step.get("replayed"):
        return
    entry = repository.get_reservation(session, int(step["reservation"]))
    if entry.settled_at is None:
        entry.settled_usd, entry.settled_at = step.get("cost_usd"), database_now(session)
        entry.tokens = entry.tokens if step.get("tokens") is None else step["tokens"]


class StoredTrajectories:
    """Opens the record of each conversation of a run's draft, by its place in it."""

    def __init__(self, run_id: int | None, model: str) -> None:
        self._run_id, self._model = run_id, model

    def __call__(self, place: str) -> StoredTrajectory:
        """The record of one conversation."""
        return StoredTrajectory(self._run_id, self._model, place)


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
