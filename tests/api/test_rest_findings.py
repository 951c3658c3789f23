"""REST answers for what was found: capabilities, diagnoses, candidates, evidence, the audit; the caller's tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.database.models import PrincipalKind, Role
from pipeline.database.unit_of_work import unit_of_work
from pipeline.releases.bundles import exportable
from pipeline.work.models import DiagnosisRow

Sweep = Callable[..., int]
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "capabilities-1.json"


@pytest.fixture
def story(sweep: Sweep) -> None:
    sweep("acme/albert-one", "acme/bert-stock-real", "acme/xlm-two")


@pytest.mark.usefixtures("story")
def test_capabilities_have_the_published_form(client: TestClient) -> None:
    found = client.get("/api/v1/capabilities").json()
    assert set(found["capabilities"][0]) == set(json.loads(SCHEMA.read_text())["$defs"]["Entry"]["properties"])
    assert {entry["model"]: entry["outcome"] for entry in found["capabilities"]} == {
        "acme/albert-one": "failed", "acme/bert-stock-real": "passed", "acme/xlm-two": "failed",
    }  # fmt: skip


@pytest.mark.usefixtures("story")
def test_diagnoses_are_narrowed_paged_and_read(client: TestClient) -> None:
    every = client.get("/api/v1/diagnoses").json()["diagnoses"]
    of_one = client.get("/api/v1/diagnoses", params={"model": "acme/albert-one"}).json()["diagnoses"]
    assert len(every) == 2 * len(of_one) > 0
    assert {row["model"] for row in of_one} == {"acme/albert-one"}
    first = client.get("/api/v1/diagnoses", params={"limit": 1}).json()
    second = client.get("/api/v1/diagnoses", params={"limit": 1, "cursor": first["next"]}).json()
    assert [first["diagnoses"][0]["id"], second["diagnoses"][0]["id"]] == [row["id"] for row in every[:2]]
    one = client.get(f"/api/v1/diagnoses/{every[0]['id']}").json()
    assert one["data"]["failure"]["kind"] == one["kind"]
    assert client.get("/api/v1/diagnoses", params={"kind": one["kind"], "op": "no.such"}).json()["diagnoses"] == []


@pytest.mark.usefixtures("story")
def test_a_reproducer_is_handed_out_where_a_script_was_kept(client: TestClient) -> None:
    number = client.get("/api/v1/diagnoses").json()["diagnoses"][0]["id"]
    assert client.get(f"/api/v1/diagnoses/{number}/reproducer").status_code == 404
    with unit_of_work() as session:
        row = session.get_one(DiagnosisRow, number)
        row.data = {**row.data, "evidence": {"reproducer": {"script": "raise SystemExit(1)\n"}}}
    answer = client.get(client.get(f"/api/v1/diagnoses/{number}").json()["reproducer"])
    assert (answer.status_code, answer.text) == (200, "raise SystemExit(1)\n")
    assert "attachment" in answer.headers["content-disposition"]


@pytest.mark.usefixtures("story")
def test_candidates_and_evidence_lead_to_each_other_without_seeds(client: TestClient) -> None:
    candidates = client.get("/api/v1/candidates", params={"state": "waiting"}).json()["candidates"]
    assert [row["state"] for row in candidates] == ["waiting", "waiting"]
    number = candidates[0]["id"]
    assert client.get(f"/api/v1/candidates/{number}").json()["digest"] == candidates[0]["digest"]
    (evidence,) = client.get("/api/v1/evidence", params={"candidate": number}).json()["evidence"]
    whole = client.get(f"/api/v1/evidence/{evidence['id']}").json()
    assert whole["replay"] == f"spyre-factory evidence replay {evidence['id']}"
    assert whole["shown"]["verdict"]["outcome"] == "passed"
    assert "seeds" not in whole["shown"]
    assert client.get("/api/v1/evidence/77").json()["code"] == "not_found"


def test_a_cursor_of_another_list_is_refused(client: TestClient, story: None) -> None:
    cursor = client.get("/api/v1/diagnoses", params={"limit": 1}).json()["next"]
    answer = client.get("/api/v1/candidates", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_cursor")


def test_the_audit_tells_what_happened_and_who_decided(
    client: TestClient, story: None, reviewer: dict[str, str]
) -> None:
    number = client.get("/api/v1/candidates", params={"state": "waiting"}).json()["candidates"][0]["id"]
    named = {**reviewer, "If-Match": client.get(f"/api/v1/reviews/{number}").headers["etag"]}
    client.post(f"/api/v1/reviews/{number}/reject", json={"reason": "no"}, headers=named).raise_for_status()
    page = client.get("/api/v1/audit", params={"kind": "candidate", "limit": 1}).json()
    assert (page["audit"][0]["topic"], page["audit"][0]["more"]["by"]) == ("review.reject", "local")
    older = client.get("/api/v1/audit", params={"kind": "candidate", "limit": 1, "cursor": page["next"]}).json()
    assert older["audit"][0]["id"] < page["audit"][0]["id"]
    (decision,) = client.get("/api/v1/audit/decisions").json()["decisions"]
    assert (decision["candidate"], decision["by"], decision["reason"]) == (number, "local", "no")


def test_tokens_are_made_listed_without_secret_and_revoked(client: TestClient, token: Callable[..., Any]) -> None:
    headers = token("someone", PrincipalKind.SERVICE, Role.VIEWER)
    made = client.post("/api/v1/tokens", json={"label": "export", "expires_in_days": 3}, headers=headers)
    assert made.status_code == 201
    own = {"Authorization": f"Bearer {made.json()['token']}"}
    listed = client.get("/api/v1/tokens", headers=own).json()["tokens"]
    assert [row["label"] for row in listed] == ["export", "test"]
    assert all("token" not in row for row in listed)
    assert client.delete(f"/api/v1/tokens/{made.json()['id']}", headers=headers).status_code == 204
    assert client.get("/api/v1/tokens", headers=own).status_code == 401
    other = token("other", PrincipalKind.SERVICE, Role.VIEWER)
    assert client.delete(f"/api/v1/tokens/{listed[1]['id']}", headers=other).status_code == 404
    assert client.get("/api/v1/tokens").status_code == 401
    assert client.post("/api/v1/tokens", json={"label": "x", "expires_in_days": 91}, headers=other).status_code == 422


def test_a_bundle_is_made_once_by_a_child_and_a_withdrawn_adapter_has_none(
    client: TestClient, story: None, reviewer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    review = client.get("/api/v1/reviews").json()["reviews"][0]
    decided = {**reviewer, "If-Match": f'"{review["seen"]}"'}
    done = client.post(f"/api/v1/reviews/{review['id']}/approve", json={"reason": "ok"}, headers=decided).json()
    number, made = done["adapter"]["id"], []

    def in_child(adapter_id: int, path: Path) -> None:
        made.append(adapter_id)
        path.write_bytes(b'{"signed": true}')

    monkeypatch.setattr("pipeline.releases.bundles._make_in_child", in_child)
    answers = [client.get(f"/api/v1/adapters/{number}/bundle") for _ in range(2)]
    assert [(a.status_code, a.json()) for a in answers] == [(200, {"signed": True})] * 2
    assert made == [number]
    with unit_of_work() as session:
        exportable(session, number).state = "withdrawn"
    assert client.get(f"/api/v1/adapters/{number}/bundle").status_code == 409


@pytest.mark.usefixtures("story")
def test_coverage_is_told_by_profile_and_over_time(client: TestClient) -> None:
    groups = client.get("/api/v1/coverage", params={"by": "profile"}).json()["groups"]
    assert [(group["name"], group["total"]) for group in groups] == [("profile-2026-08", 3)]
    (point,) = client.get("/api/v1/coverage/history").json()["points"]
    assert (point["passing_real"], point["passing_synthetic"]) == (1, 0)
