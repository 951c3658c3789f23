"""A draft that is killed at any commit goes on when its run is taken again, and no call is charged twice."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.endpoint import Running, serve
from pipeline.database import unit_of_work as transactions
from pipeline.database.unit_of_work import reading
from pipeline.drafting.trajectories import summaries
from pipeline.review.models import BudgetEntry
from pipeline.settings import Settings

DRIVER = Path(__file__).with_name("kill_driver.py")
drafted: Callable[[int, str], list[str]] = runpy.run_path(str(DRIVER))["drafted"]
COMMITS = 14
"""Transactions of the whole draft: one for the start, four for each of three turns, one for the end."""


class Killed(BaseException):
    """The process is gone: whatever it still does reaches no database."""


class Death:
    """From the n-th passage of `before_commit` or `after_commit` on nothing is committed."""

    def __init__(self, at: int) -> None:
        self.at, self.passed = at, 0

    def __call__(self, point: str) -> None:
        self.passed += 1
        if self.passed >= self.at:
            raise Killed


@pytest.fixture
def endpoint() -> Iterator[Running]:
    with serve() as running:
        yield running


def entries() -> list[BudgetEntry]:
    with reading() as session:
        return list(session.query(BudgetEntry).order_by(BudgetEntry.id))


def answers() -> list[dict[str, Any]]:
    """The answers that were asked for, of all conversations."""
    with reading() as session:
        from pipeline.drafting.trajectories import export

        documents = [export(session, row["id"]) for row in summaries(session)]
    return [s for d in documents for s in d["steps"] if s["kind"] == "answer" and not s.get("replayed")]


@pytest.mark.parametrize("at", range(1, 2 * COMMITS, 2))
def test_killed_at_any_commit_the_draft_goes_on_and_each_call_is_charged_once(
    at: int, run_id: int, endpoint: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    death = Death(at)
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "fault_point", death)
        try:
            first = drafted(run_id, endpoint.url)
        except Killed:
            first = []
    lost = [entry for entry in entries() if entry.settled_at is None]
    assert len(lost) <= 1
    second = drafted(run_id, endpoint.url) or first
    assert len(second) == 1
    asked = answers()
    reservations = [answer["reservation"] for answer in asked]
    assert len(set(reservations)) == len(reservations)
    assert len(asked) == 3
    made = entries()
    assert len(made) <= 4, "at most the one call whose answer was lost is made again"
    assert sum(entry.settled_at is None for entry in made) == len(made) - 3


def test_a_process_that_is_really_killed(run_id: int, endpoint: Running, sqlite: Settings) -> None:
    environ = {**os.environ, "SPYRE_FACTORY_TEST_MODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, str(DRIVER), str(run_id), endpoint.url]
    died = subprocess.run(argv, env={**environ, "SPYRE_FACTORY_FAULT": "before_commit:kill:7"}, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    paid = len(answers())
    done = subprocess.run(argv, env=environ, capture_output=True, check=True)
    assert len(json.loads(done.stdout)) == 1
    assert paid >= 1
    assert len(answers()) == 3
