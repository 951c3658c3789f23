"""Costs by REST are those of the command; what is not known is null, never 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.drafting.costs import cost_report
from pipeline.review.models import BudgetEntry


def spend(*calls: float | None) -> None:
    with unit_of_work() as session:
        now = database_now(session)
        for cost in calls:
            entry = BudgetEntry(day="2026-11-30", purpose="m", reserved_usd=0.5, settled_usd=cost, created_at=now)
            session.add(entry)


@pytest.mark.usefixtures("database")
def test_the_answer_is_the_report_and_unknown_is_null(client: TestClient) -> None:
    assert client.get("/api/v1/costs").json()["per_model_usd"] is None, "nothing passes yet"
    spend(0.25)
    assert client.get("/api/v1/costs").json()["cost_usd"] == 0.25
    spend(None)
    found = client.get("/api/v1/costs").json()
    with reading() as session:
        assert found == cost_report(session)
    assert (found["cost_usd"], found["by_model"]["m"]["cost_usd"], found["charged_usd"]) == (None, None, 0.75)


def test_who_may_not_read_is_refused(client: TestClient, token: Callable[..., dict[str, str]]) -> None:
    answer = client.get("/api/v1/costs", headers={"Authorization": "Bearer nobody"})
    assert answer.status_code == 401
