"""/rules: a proposed rule is decided by whoever may decide, on what was seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.database.models import PrincipalKind, Role
from pipeline.database.unit_of_work import unit_of_work
from pipeline.review.repository import get_candidate
from pipeline.rules.service import store_rule

RULE: dict[str, Any] = {
    "name": "drafted_pow_1", "match": "pow(x, 3.0)", "to": "mul(x, mul(x, x))", "domain": "|x| <= 8",
    "near_misses": ["pow(x, 4.0)"], "tests": {"points": 5, "largest_difference": 0.0, "near_misses_refused": 1},
    "data": {},
}  # fmt: skip
Headers = dict[str, str]


@pytest.fixture(autouse=True)
def _proposed(sweep: Callable[..., int]) -> None:
    sweep("a/albert-one")
    with unit_of_work() as session:
        candidate = get_candidate(session, 1)
        store_rule(session, candidate, candidate.patches[0], RULE)


def rules(client: TestClient, state: str = "waiting") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/rules", params={"state": state}).json()["rules"]
    return found


def decide(client: TestClient, what: str, headers: Headers) -> Any:
    return client.post(f"/api/v1/rules/1/{what}", json={"reason": "it holds"}, headers=headers)


def test_a_rule_is_accepted_on_what_was_seen_and_waits_no_more(client: TestClient, reviewer: Headers) -> None:
    [row] = rules(client)
    assert (row["match"], row["tests"]["near_misses_refused"]) == ("pow(x, 3.0)", 1)
    assert decide(client, "accept", reviewer).status_code == 428
    assert decide(client, "accept", {**reviewer, "If-Match": '"0"'}).status_code == 412
    assert decide(client, "accept", {**reviewer, "If-Match": f'"{row["seen"]}"'}).json()["state"] == "accepted"
    assert rules(client) == []
    assert [r["state"] for r in rules(client, "all")] == ["accepted"]
    assert decide(client, "reject", {**reviewer, "If-Match": f'"{row["seen"]}"'}).status_code == 409


def test_the_page_shows_the_rule_and_its_form_decides(browser: TestClient) -> None:
    page = browser.get("/rules").text
    assert "mul(x, mul(x, x))" in page
    assert 'href="/rules"' in browser.get("/review").text
    values = dict(re.findall(r'name="(csrf|seen)" value="([^"]*)"', page))
    answer = browser.post("/rules/1/accept", data={**values, "reason": "holds"})
    assert answer.status_code == 303, answer.text
    assert [r["state"] for r in rules(browser, "all")] == ["accepted"]
    assert "No rule waits" in browser.get("/rules").text


def test_who_may_not_review_decides_nothing(client: TestClient, token: Callable[..., Headers]) -> None:
    [row] = rules(client)
    viewer = token("viewer", PrincipalKind.HUMAN, Role.VIEWER)
    assert decide(client, "accept", {**viewer, "If-Match": f'"{row["seen"]}"'}).status_code == 403
    assert decide(client, "accept", {"If-Match": f'"{row["seen"]}"'}).status_code == 401
    assert len(rules(client)) == 1
