"""What a drafter reaches in the database: its trajectory, saved step by step, and its budget, reserved first."""

from __future__ import annotations

import uuid
from typing import Any

from agents.errors import BudgetExhausted
from pipeline.database.unit_of_work import database_now, unit_of_work
from pipeline.review import repository
from pipeline.review.models import SCRIPTED, BudgetEntry, Trajectory, TrajectoryStep


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


class StoredBudget:
    """`agents.drafters.llm.budget.BudgetLedger` on the database: a daily limit in US dollars, by the database's day."""

    def __init__(self, daily_usd: float, run_id: int | None = None) -> None:
        self._daily_usd, self._run_id = daily_usd, run_id

    def reserve(self, *, model: str, cost_usd: float, tokens: int) -> str:
        """Reserve before a call. Raises `BudgetExhausted` if the day's budget would be exceeded."""
        with unit_of_work() as session:
            now = database_now(session)
            day = now.date().isoformat()
            charged = repository.charged_usd(session, day)
            if charged + cost_usd > self._daily_usd:
                raise BudgetExhausted(
                    f"the daily budget of {self._daily_usd:.2f} USD does not cover another {cost_usd:.4f} "
                    f"after {charged:.4f}"
                )
            entry = BudgetEntry(
                day=day, purpose=model, run_id=self._run_id, reserved_usd=cost_usd, tokens=tokens, created_at=now
            )
            session.add(entry)
            session.flush()
            return str(entry.id)

    def settle(self, reservation: str, *, cost_usd: float | None, tokens: int | None) -> None:
        """Store what the call did cost; None leaves the reserved amount charged."""
        with unit_of_work() as session:
            entry = repository.get_reservation(session, int(reservation))
            entry.settled_usd = cost_usd
            entry.tokens = entry.tokens if tokens is None else tokens
            entry.settled_at = database_now(session)
