"""/reviews: what is seen is what is decided on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.database.models import PrincipalKind, Role
from pipeline.database.unit_of_work import unit_of_work
from pipeline.review.repository import get_candidate
from pipeline.settings import get_settings

Sweep = Callable[..., int]
Headers = dict[str, str]


@pytest.fixture(autouse=True)
def _waiting(sweep: Sweep) -> None:
    sweep("a/albert-one", "b/albert-two")


def seen(client: TestClient) -> str:
    return client.get("/api/v1/reviews/1").headers["etag"]


def decide(client: TestClient, decision: str, headers: Headers, **body: Any) -> Any:
    return client.post(f"/api/v1/reviews/1/{decision}", json={"reason": "because", **body}, headers=headers)


def change_evidence() -> None:
    with unit_of_work() as session:
        get_candidate(session, 1).evidence[0].digest = "f" * 64


def test_the_queue_lists_what_waits(client: TestClient) -> None:
    (row,) = client.get("/api/v1/reviews").json()["reviews"]
    assert (row["id"], row["state"], row["patches"]) == (1, "waiting", ["P56", "P01", "P20", "P63"])
    details = client.get("/api/v1/reviews/1").json()
    assert {item["model"] for item in details["would_then_pass"]} == {"a/albert-one", "b/albert-two"}
    assert details["evidence"][0]["evidence"]["verdict"]["outcome"] == "passed"


def test_an_unchanged_review_is_not_sent_again(client: TestClient) -> None:
    tag = seen(client)
    assert client.get("/api/v1/reviews/1", headers={"If-None-Match": tag}).status_code == 304
    change_evidence()
    assert client.get("/api/v1/reviews/1", headers={"If-None-Match": tag}).status_code == 200


def test_an_approval_releases_and_runs_the_affected_models_again(
    client: TestClient, reviewer: Headers, work: Callable[[], int]
) -> None:
    before = client.get("/api/v1/coverage").json()
    done = decide(client, "approve", {**reviewer, "If-Match": seen(client)})
    assert done.status_code == 200
    assert len(done.json()["runs"]) == 2
    work()
    after = client.get("/api/v1/coverage").json()
    assert (before["passing_synthetic"], after["passing_synthetic"]) == (0, 2)
    assert client.get("/api/v1/reviews").json()["reviews"] == []
    (adapter,) = client.get("/api/v1/adapters").json()["adapters"]
    assert (adapter["candidate_id"], adapter["state"]) == (1, "released")
    assert client.get(f"/api/v1/adapters/{adapter['id']}").json()["manifest"]["patches"]


@pytest.mark.parametrize("tag", [None, "*", "", "unquoted", '"a", "b"'])
def test_a_decision_must_name_what_was_seen(client: TestClient, reviewer: Headers, tag: str | None) -> None:
    named = {**reviewer, **({} if tag is None else {"If-Match": tag})}
    for decision, more in (("approve", {}), ("reject", {}), ("changes", {}), ("strike", {"position": 1})):
        answer = decide(client, decision, named, **more)
        assert (answer.status_code, answer.json()["code"]) == (428, "precondition_required")


def test_the_first_of_two_approvals_releases_nothing(
    client: TestClient, reviewer: Headers, token: Callable[..., Headers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_TWO_PERSONS", "true")
    get_settings.cache_clear()
    tag = seen(client)
    first = decide(client, "approve", {**reviewer, "If-Match": tag})
    assert (first.status_code, first.json()) == (200, {"adapter": None, "runs": [], "also": []})
    again = decide(client, "approve", {**reviewer, "If-Match": tag})
    assert (again.status_code, again.json()["code"]) == (409, "second_person_needed")
    other = token("second", PrincipalKind.HUMAN, Role.REVIEWER)
    assert decide(client, "approve", {**other, "If-Match": tag}).json()["adapter"]["version"] == 1


@pytest.mark.parametrize("decision", ["approve", "reject", "changes"])
def test_a_decision_on_what_has_changed_is_refused(client: TestClient, reviewer: Headers, decision: str) -> None:
    tag = seen(client)
    change_evidence()
    answer = decide(client, decision, {**reviewer, "If-Match": tag})
    assert (answer.status_code, answer.json()["code"]) == (412, "stale_approval")
    assert client.get("/api/v1/reviews/1").json()["state"] == "waiting"


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "   "}, {"reason": 3}, {"reason": "x", "force": True}])
def test_a_decision_needs_a_reason_and_nothing_unknown(client: TestClient, reviewer: Headers, body: Any) -> None:
    answer = client.post("/api/v1/reviews/1/reject", json=body, headers=reviewer)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(("decision", "state"), [("reject", "rejected"), ("changes", "changes")])
def test_the_other_decisions_are_stored_with_their_reason(
    client: TestClient, reviewer: Headers, decision: str, state: str
) -> None:
    named = {**reviewer, "If-Match": seen(client)}
    assert decide(client, decision, named).json()["state"] == state
    (review,) = client.get("/api/v1/reviews/1").json()["reviews"]
    assert (review["decision"], review["reason"]) == (decision, "because")
    again = decide(client, decision, named)
    assert (again.status_code, again.json()["code"]) == (409, "not_reviewable")


def test_striking_a_patch_makes_a_smaller_candidate(client: TestClient, reviewer: Headers) -> None:
    smaller = decide(client, "strike", {**reviewer, "If-Match": seen(client)}, position=2).json()
    assert (smaller["id"], smaller["patches"], smaller["state"]) == (2, ["P56", "P20", "P63"], "verifying")
    assert client.get("/api/v1/reviews/1").json()["state"] == "superseded"
    assert client.get("/api/v1/reviews/2").json()["struck_from"] == 1


def test_a_patch_that_is_not_there_cannot_be_struck(client: TestClient, reviewer: Headers) -> None:
    answer = decide(client, "strike", {**reviewer, "If-Match": seen(client)}, position=9)
    assert (answer.status_code, answer.json()["code"]) == (404, "patch_not_in_set")


def test_a_claim_keeps_others_away(client: TestClient, reviewer: Headers, token: Callable[..., Headers]) -> None:
    other = token("second", PrincipalKind.HUMAN, Role.REVIEWER)
    assert client.post("/api/v1/reviews/1/claim", headers=other).status_code == 200
    answer = decide(client, "approve", {**reviewer, "If-Match": seen(client)})
    assert (answer.status_code, answer.json()["code"]) == (409, "claimed_by_other")
    assert client.get("/api/v1/reviews/1").json()["claimed_until"]


def test_of_two_reviewers_one_decides(client: TestClient, reviewer: Headers) -> None:
    tag = seen(client)
    answers = [decide(client, "approve", {**reviewer, "If-Match": tag}).status_code for _ in range(2)]
    assert answers == [200, 409]


def withdrawal(client: TestClient, headers: Headers, reason: str = "wrong for long texts") -> Any:
    return client.post("/api/v1/adapters/1/withdraw", json={"reason": reason}, headers=headers)


def test_a_withdrawal_names_what_was_seen_and_runs_the_served_models_again(
    client: TestClient, reviewer: Headers, work: Callable[[], int]
) -> None:
    decide(client, "approve", {**reviewer, "If-Match": seen(client)})
    work()
    tag = client.get("/api/v1/adapters/1").headers["etag"]
    for named, status in (({}, 428), ({"If-Match": "*"}, 428), ({"If-Match": f'"{"0" * 64}"'}, 412)):
        assert withdrawal(client, {**reviewer, **named}).status_code == status
    assert withdrawal(client, {**reviewer, "If-Match": tag}, reason=" ").status_code == 422
    assert client.get("/api/v1/adapters/1").json()["state"] == "released", "what was refused changed nothing"
    done = withdrawal(client, {**reviewer, "If-Match": tag})
    assert (done.status_code, done.json()["adapter"]["id"], len(done.json()["runs"])) == (200, 1, 2)
    assert withdrawal(client, {**reviewer, "If-Match": tag}).status_code == 412, "it is not what was seen any more"
    again = client.get("/api/v1/adapters/1").headers["etag"]
    assert withdrawal(client, {**reviewer, "If-Match": again}).status_code == 409
    work()
    outcomes = {row["model"]: row["outcome"] for row in client.get("/api/v1/models").json()["models"]}
    assert outcomes == {"a/albert-one": "failed", "b/albert-two": "failed"}
