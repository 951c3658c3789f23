"""The score table by REST: stored scores by model; a language model without one is not measured, never 0."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from pipeline.bench.scores import store_score
from pipeline.database.unit_of_work import unit_of_work

FIGURES = {
    "tasks": 2, "solved_at_1": 1, "share_at_1": 0.5, "interval_at_1": [0.09, 0.91], "k": 3, "solved_at_k": 2,
    "share_at_k": 1.0, "interval_at_k": [0.34, 1.0], "turns": 4, "tokens": 900, "cost_usd": None,
    "median_draft_seconds": 0.1, "median_judge_seconds": 0.2, "largest_cost_ratio": 1.0, "solved_with_proof": 1,
}  # fmt: skip


def stored(drafter: str, model: str) -> None:
    found = {
        "drafter": drafter, "model": model, "split": "public", "seed": None, "tasks_digest": "d" * 64,
        "at": "2026-11-30T08:00:00+00:00", "overall": FIGURES, "by_pattern": {"P01": FIGURES}, "results": [],
    }  # fmt: skip
    with unit_of_work() as session:
        store_score(session, found)


@pytest.mark.usefixtures("database")
def test_scores_are_listed_and_who_was_not_measured_is_named(client: TestClient) -> None:
    assert client.get("/api/v1/bench").json() == {
        "scores": [],
        "not_measured": [{"drafter": "llm", "model": "not measured", "reason": "no endpoint is set"}],
    }
    stored("rules", "rules")
    stored("llm", "some-model")
    found = client.get("/api/v1/bench").json()
    assert [(s["model"], s["share_at_1"], s["cost_usd"]) for s in found["scores"]] == [
        ("rules", 0.5, None),
        ("some-model", 0.5, None),
    ]
    assert found["scores"][0]["by_pattern"]["P01"]["tasks"] == 2
    assert found["not_measured"] == []
