"""Money is reserved one call at a time, within every budget, and not at all while drafting is stopped."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from agents.errors import BudgetExhausted
from pipeline.cli.main import build_app
from pipeline.database.accounts import local_reviewer
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.requests.models import RequestRow
from pipeline.review.drafting import Budgets, StoredBudget
from pipeline.review.models import BudgetEntry
from pipeline.work.models import Run

CALLERS = 6


def reserve(budget: StoredBudget, cost_usd: float = 0.4) -> bool:
    try:
        budget.reserve(model="m", cost_usd=cost_usd, tokens=10)
    except BudgetExhausted:
        return False
    return True


def entries() -> list[BudgetEntry]:
    with reading() as session:
        return list(session.query(BudgetEntry))


def test_callers_at_once_never_reserve_more_than_the_day_holds(database: str) -> None:
    """Two of six calls of 0.4 fit into 1.0. Each holds its sum a little, so that unlocked ones would all pass."""
    together = Barrier(CALLERS)

    def call(_: int) -> bool:
        together.wait(30)
        return reserve(StoredBudget(Budgets(daily=1.0)))

    def linger(session: Session, *_: object) -> None:
        if session.new:
            together_pause.wait(0.2)

    together_pause = Event()
    event.listen(Session, "before_flush", linger)
    try:
        with ThreadPoolExecutor(CALLERS) as pool:
            accepted = sum(pool.map(call, range(CALLERS)))
    finally:
        event.remove(Session, "before_flush", linger)
    assert (accepted, len(entries())) == (2, 2)


def test_an_unknown_cost_keeps_the_reserved_amount_charged(database: str) -> None:
    budget = StoredBudget(Budgets(daily=1.0))
    first = budget.reserve(model="m", cost_usd=0.6, tokens=10)
    budget.settle(first, cost_usd=None, tokens=None)
    assert not reserve(budget, 0.6)
    budget.settle(first, cost_usd=0.1, tokens=4)
    assert reserve(budget, 0.6)


def test_a_request_and_a_requester_have_budgets_of_their_own(database: str, sweep_of: Callable[..., int]) -> None:
    sweep_of("a/one")
    with unit_of_work() as session:
        run, who = session.query(Run).first(), local_reviewer(session)
        assert run is not None
        now = database_now(session)
        session.add(
            RequestRow(
                id="r1", model="a/one", profile=run.profile, principal_id=who.id, body_digest="0" * 64, created_at=now
            )
        )
        session.flush()
        run.request_id, run.requester = "r1", "ada"
    assert reserve(StoredBudget(Budgets(9.0, 9.0, 9.0), run.id), 0.7)
    with pytest.raises(BudgetExhausted, match=r"budget of request r1 .* after 0\.7"):
        StoredBudget(Budgets(9.0, 9.0, 1.0), run.id).reserve(model="m", cost_usd=0.4, tokens=1)
    with pytest.raises(BudgetExhausted, match=r"requester 'ada' .* after 0\.7"):
        StoredBudget(Budgets(9.0, 1.0, 9.0), run.id).reserve(model="m", cost_usd=0.4, tokens=1)
    assert reserve(StoredBudget(Budgets(9.0, 1.0, 1.0)), 0.4), "other work is not held to their budgets"
    assert len(entries()) == 2


def test_nothing_is_reserved_while_drafting_is_stopped(database: str) -> None:
    budget, program = StoredBudget(Budgets(daily=1.0)), CliRunner()
    assert program.invoke(build_app(), ["drafting", "stop", "--reason", "costs"]).exit_code == 0
    with pytest.raises(BudgetExhausted, match="drafting start"):
        budget.reserve(model="m", cost_usd=0.1, tokens=1)
    assert program.invoke(build_app(), ["drafting", "start"]).exit_code == 0
    assert reserve(budget)
