"""/requests: 202 while there is work, 200 with the code to use when there is none, once per key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.database.models import PrincipalKind, Role
from pipeline.database.unit_of_work import reading
from pipeline.requests.models import RequestRow
from pipeline.settings import get_settings

Sweep = Callable[..., int]
ROUTE = "/api/v1/requests"


def ask(client: TestClient, model: str, **more: Any) -> Any:
    headers = {"Idempotency-Key": more.pop("key")} if "key" in more else {}
    headers |= more.pop("headers", {})
    return client.post(ROUTE, json={"model": model, **more}, headers=headers)


def test_a_request_says_where_it_stands_and_what_happens_next(client: TestClient, sweep: Sweep) -> None:
    sweep("a/albert-one", "b/mpnet-two", finish=False)
    answer = ask(client, "b/mpnet-two", note="for search")
    body = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"{ROUTE}/{body['id']}"
    assert (body["state"], body["position"], body["expected_wait_s"]) == ("queued", 1, None)
    assert body["known"] == {"outcome": "not_run", "failures": []}
    assert body["next"]
    assert client.get(body["page"]).status_code == 200
    assert client.get(f"{ROUTE}/{body['id']}").json() == body


def test_a_request_goes_before_every_sweep(client: TestClient, sweep: Sweep) -> None:
    sweep("a/albert-one", "b/mpnet-two", "c/xlm-three", finish=False)
    assert ask(client, "c/xlm-three").json()["position"] == 1


def test_a_request_for_what_passes_is_ready_at_once(client: TestClient, sweep: Sweep) -> None:
    sweep("a/bert-stock")
    answer = ask(client, "a/bert-stock")
    body = answer.json()
    assert (answer.status_code, body["state"], body["adapter"]) == (200, "ready", None)
    assert 'SentenceTransformer("a/bert-stock", backend="spyre")' in body["use"]


def test_a_request_that_needs_a_human_says_who_must_act(
    client: TestClient, sweep: Sweep, reviewer: dict[str, str]
) -> None:
    sweep("a/albert-one")
    body = ask(client, "a/albert-one").json()
    assert (body["state"], body["waiting_candidate"]) == ("review", 1)
    assert "/review/1" in body["next"]
    assert {failure["op"] for failure in body["known"]["failures"]} >= {"aten.pow.Tensor_Scalar"}


def test_after_the_release_the_answer_holds_the_adapter(
    client: TestClient, sweep: Sweep, reviewer: dict[str, str], work: Callable[[], int]
) -> None:
    sweep("a/albert-one")
    number = ask(client, "a/albert-one").json()["id"]
    tag = client.get("/api/v1/reviews/1").headers["etag"]
    done = client.post("/api/v1/reviews/1/approve", json={"reason": "ok"}, headers={**reviewer, "If-Match": tag}).json()
    work()
    body = client.get(f"{ROUTE}/{number}").json()
    assert (body["state"], body["adapter"]) == ("ready", done["adapter"])
    assert "spyre_manifest" in body["use"]
    manifest = client.get(body["adapter"]["download"])
    assert manifest.json()["digest"] == body["adapter"]["digest"]


def test_a_model_that_cannot_be_helped_says_why(client: TestClient, sweep: Sweep) -> None:
    sweep("a/nomic-remote")
    body = ask(client, "a/nomic-remote").json()
    assert body["state"] == "failed"
    assert "needs its own code" in body["next"]


def test_one_key_is_one_request(client: TestClient, sweep: Sweep) -> None:
    sweep("a/albert-one", "b/mpnet-two", finish=False)
    first, second = (ask(client, "a/albert-one", key="k-1").json() for _ in range(2))
    assert first["id"] == second["id"]
    other = ask(client, "b/mpnet-two", key="k-1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_conflict")


def test_a_key_is_its_callers_own(client: TestClient, sweep: Sweep, token: Callable[..., dict[str, str]]) -> None:
    sweep("a/albert-one", finish=False)
    one, two = (token(name, PrincipalKind.SERVICE, Role.REQUESTER) for name in ("one", "two"))
    assert (
        ask(client, "a/albert-one", key="k", headers=one).json()["id"]
        != (ask(client, "a/albert-one", key="k", headers=two).json()["id"])
    )


@pytest.mark.parametrize(
    "model",
    [
        "",
        "a/b/c",
        "../etc",
        "a/../b",
        "a b",
        "a/<script>",
        "-a/b",
        "a\n/b",
        "a/b\n",
        "é/a",
        "a" * 201,
        "a/b..c",
        "a--b/c",
        "a/b.git",
        "a/b-",
    ],
)
def test_only_hub_ids_are_models(client: TestClient, model: str) -> None:
    answer = ask(client, model)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_an_unknown_profile_is_refused_with_those_there_are(client: TestClient, sweep: Sweep) -> None:
    sweep("a/albert-one", finish=False)
    answer = ask(client, "a/albert-one", profile="profile-1999-01")
    assert answer.status_code == 422
    assert "profile-2026-08" in answer.json()["detail"]


def test_a_refused_request_leaves_nothing(client: TestClient) -> None:
    assert ask(client, "nobody/listed-this").status_code == 424
    assert "Nobody has asked yet" in client.get("/requests", headers={"Accept": "text/html"}).text


CONFIG = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2}


def test_a_configuration_alone_is_enough(client: TestClient, work: Callable[[], int]) -> None:
    answer = client.post(ROUTE, json={"config": CONFIG})
    body = answer.json()
    assert (answer.status_code, body["state"]) == (202, "queued")
    assert body["model"].startswith("local/config-")
    work()
    (run,) = [run for run in client.get(f"/api/v1/models/{body['model']}").json()["runs"] if run["stage"] == "inspect"]
    assert run["outcome"] == "passed"


def test_the_same_without_a_key_is_the_open_request(client: TestClient, sweep: Sweep) -> None:
    sweep("a/albert-one", finish=False)
    first, second = (ask(client, "a/albert-one").json() for _ in range(2))
    assert first["id"] == second["id"]
    assert ask(client, "a/albert-one", note="another").json()["id"] != first["id"]


def test_a_key_answers_as_it_did_the_first_time(client: TestClient, sweep: Sweep, work: Callable[[], int]) -> None:
    sweep("a/bert-stock", finish=False)
    first = ask(client, "a/bert-stock", key="k")
    work()
    again = ask(client, "a/bert-stock", key="k")
    assert (again.status_code, again.json()) == (202, first.json())
    assert client.get(f"{ROUTE}/{first.json()['id']}").json()["state"] == "ready"


def test_without_the_hub_both_remedies_are_named(client: TestClient) -> None:
    answer = ask(client, "nobody/listed-this")
    assert (answer.status_code, answer.json()["code"]) == (424, "hub_unreachable")
    assert "HF_ENDPOINT" in answer.json()["detail"]
    assert "config" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": "a/b", "config": CONFIG},
        {"model": "a/b", "revision": "main"},
        {"config": CONFIG, "revision": "0" * 40},
        {"model": "a/b", "callback_url": "http://example.org/x"},
        {"model": "a/b", "callback_url": "https://user@example.org/"},
        {"model": "a/b", "callback_url": "https:///x"},
        {"model": "a/b", "callback_url": "https://example.org:99999/"},
        {"model": "a/b", "note": "a\0b"},
        {"config": []},
    ],
)
def test_a_body_that_cannot_be_meant_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    answer = client.post(ROUTE, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    "content",
    [b'{"config": {"model_type": "bert", "x": NaN}}', b'{"config": {"model_type": "bert", "x": "\\ud800"}}'],
)
def test_what_no_database_takes_is_refused(client: TestClient, content: bytes) -> None:
    answer = client.post(ROUTE, content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_config")


def test_json_nested_without_end_is_the_callers_fault(client: TestClient) -> None:
    content = b'{"config": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    answer = client.post(ROUTE, content=content, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_callback_is_kept_for_later(client: TestClient, sweep: Sweep) -> None:
    sweep("a/albert-one", finish=False)
    number = ask(client, "a/albert-one", callback_url="https://example.org/hook").json()["id"]
    with reading() as session:
        assert session.get_one(RequestRow, number).callback_url == "https://example.org/hook"


def test_too_many_open_requests_are_refused(client: TestClient, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_QUOTA_OPEN_REQUESTS", "1")
    get_settings.cache_clear()
    sweep("a/albert-one", "b/mpnet-two", finish=False)
    assert ask(client, "a/albert-one").status_code == 202
    answer = ask(client, "b/mpnet-two")
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")


def test_a_request_is_cancelled_by_who_made_it(
    client: TestClient, sweep: Sweep, token: Callable[..., dict[str, str]]
) -> None:
    sweep("a/albert-one", finish=False)
    one, two = (token(name, PrincipalKind.SERVICE, Role.REQUESTER) for name in ("one", "two"))
    number = ask(client, "a/albert-one", headers=one).json()["id"]
    refused = client.post(f"{ROUTE}/{number}/cancel", headers=two)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    for _ in range(2):
        done = client.post(f"{ROUTE}/{number}/cancel", headers=one)
        assert (done.status_code, done.json()["state"]) == (200, "cancelled")
    assert client.get(f"/requests/{number}", headers={"Accept": "text/html"}).status_code == 200
