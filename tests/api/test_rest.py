"""REST answers: models and their pages by cursor, coverage, sweeps, runs, adapters, and the operators' routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from pipeline.database.facts import mark_demo
from pipeline.database.models import PrincipalKind, Role
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.settings import get_settings
from pipeline.sweeps.groups import derive
from pipeline.sweeps.models import CheckpointStatus
from pipeline.verification.evidence import unpack_evidence
from pipeline.verification.policy import current_policy
from pipeline.work import chores
from pipeline.work.control import pause_queue
from pipeline.work.models import DiagnosisRow

Sweep = Callable[..., int]
Entries = Callable[..., int]


def names(page: dict[str, Any]) -> list[str]:
    return [item["model"] for item in page["models"]]


def walk(client: TestClient, **query: Any) -> list[list[str]]:
    """All pages of a list, by its cursors."""
    pages, cursor = [], None
    while True:
        page = client.get("/api/v1/models", params={**query, **({"cursor": cursor} if cursor else {})}).json()
        pages.append(names(page))
        cursor = page["next"]
        if cursor is None:
            return pages


def test_models_come_in_pages_by_downloads_or_by_name(client: TestClient, entries: Entries) -> None:
    entries([("z/one", 5), ("a/two", 9), ("m/three", 5), ("b/four", 9), ("k/five", 1)], finish=False)
    assert walk(client, limit=2) == [["a/two", "b/four"], ["z/one", "m/three"], ["k/five"]]
    assert walk(client, limit=3, sort="name") == [["a/two", "b/four", "k/five"], ["m/three", "z/one"]]
    assert walk(client, limit=5) == [["a/two", "b/four", "z/one", "m/three", "k/five"]]


def test_a_cursor_of_another_order_is_refused(client: TestClient, entries: Entries) -> None:
    entries([("a/one", 5), ("a/two", 4)], finish=False)
    cursor = client.get("/api/v1/models", params={"limit": 1}).json()["next"]
    answer = client.get("/api/v1/models", params={"cursor": cursor, "sort": "name"})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_cursor")


def test_search_takes_its_text_literally(client: TestClient, entries: Entries) -> None:
    entries([("a/under_score", 3), ("a/underXscore", 2), ("a/per%cent", 1)], finish=False)
    assert names(client.get("/api/v1/models", params={"search": "UNDER_"}).json()) == ["a/under_score"]
    assert names(client.get("/api/v1/models", params={"search": "%"}).json()) == ["a/per%cent"]


def test_each_outcome_can_be_listed_and_left_out_models_are_failed_ones(
    client: TestClient, sweep: Sweep, entries: Entries
) -> None:
    sweep("a/bert-stock-real", "b/albert-one", "c/nomic-remote", "d/xlm-unsure")
    entries([("f/gone", 1)], dropped_kind="gated", dropped_reason="It is gated.", config=None)
    entries([("e/later", 1)], finish=False)

    def listed(outcome: str) -> list[str]:
        return names(client.get("/api/v1/models", params={"outcome": outcome}).json())

    assert listed("passed") == ["a/bert-stock-real"]
    assert listed("failed") == ["b/albert-one", "c/nomic-remote", "f/gone"]
    assert listed("waiting") == ["b/albert-one"]
    assert listed("unknown") == ["d/xlm-unsure"]
    assert listed("not_run") == ["e/later"]
    gone = client.get("/api/v1/models/f/gone").json()
    assert (gone["outcome"], gone["kind"], gone["reason"]) == ("failed", "gated", "It is gated.")


def test_a_model_tells_what_fails_and_where(client: TestClient, sweep: Sweep) -> None:
    sweep("acme/albert-one")
    model = client.get("/api/v1/models/acme/albert-one").json()
    assert (model["outcome"], model["waiting_candidate"], model["stale"]) == ("failed", 1, False)
    found = {(f["kind"], f["op"], f["source"]) for f in model["failures"]}
    assert ("wrong_values", "aten.pow.Tensor_Scalar", "activations.py:66") in found
    assert [run["stage"] for run in model["runs"]] == ["verify", "draft", "diagnose", "capture", "inspect"]
    run = client.get(f"/api/v1/runs/{model['runs'][0]['id']}").json()
    assert run["evidence"]["gate"] == current_policy().version


def test_a_verdict_of_another_environment_is_stale(
    client: TestClient, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep("a/bert-stock")
    monkeypatch.setattr("api.pages.labels.environment_digest", lambda _profile: "e" * 64)
    assert client.get("/api/v1/models/a/bert-stock").json()["stale"] is True


def test_a_derived_verdict_names_the_model_that_was_executed(client: TestClient, sweep: Sweep) -> None:
    sweep("a/bert-stock", "b/mpnet-stock")
    with unit_of_work() as session:
        first, other = (session.query(CheckpointStatus).order_by(CheckpointStatus.checkpoint_id)).all()
        other.derived_from = first.checkpoint_id
        first.checkpoint.group_key = other.checkpoint.group_key = "g" * 64
        derive(session, first)
    answer = client.get("/api/v1/models/b/mpnet-stock").json()
    assert (answer["outcome"], answer["derived_from"]) == ("passed", "a/bert-stock")
    assert client.get("/api/v1/models/a/bert-stock").json()["derived_from"] is None
    page = client.get("/models/b/mpnet-stock").text
    assert "executed once for its group as a/bert-stock" in page
    assert "as another of its group" in page


def test_coverage_tells_real_and_synthetic_apart_and_groups(client: TestClient, sweep: Sweep) -> None:
    sweep("a/bert-stock-real", "b/mpnet-stock", "c/albert-one")
    figures = client.get("/api/v1/coverage").json()
    assert (figures["total"], figures["passing_real"], figures["passing_synthetic"]) == (3, 1, 1)
    assert figures["by_downloads"]["passing_real"] == 1_000_000
    assert (figures["demo"], figures["groups"]) == (False, [])
    groups = client.get("/api/v1/coverage", params={"by": "op"}).json()["groups"]
    assert {group["name"] for group in groups} >= {"aten.pow.Tensor_Scalar", "aten.view.default"}


def test_a_demonstration_says_so(client: TestClient) -> None:
    with unit_of_work() as session:
        mark_demo(session, "test")
    assert client.get("/api/v1/coverage").json()["demo"] is True
    assert "Demonstration database" in client.get("/review", headers={"Accept": "text/html"}).text


def test_a_sweep_tells_how_far_it_is(client: TestClient, sweep: Sweep) -> None:
    number = sweep("a/bert-stock", finish=False)
    begun = client.get(f"/api/v1/sweeps/{number}").json()
    assert (begun["state"], begun["runs_done"], begun["runs_known"]) == ("running", 0, 1)
    done = client.get(f"/api/v1/sweeps/{sweep('b/mpnet-stock')}").json()
    assert (done["state"], done["funnel"]["passed"], done["executed"]) == ("done", 1, 1)
    assert done["runs_done"] == done["runs_known"] == 3


def test_artefacts_are_downloads_that_nothing_runs(client: TestClient, sweep: Sweep) -> None:
    sweep("a/bert-stock")
    runs = client.get("/api/v1/models/a/bert-stock").json()["runs"]
    digest = next(run["artefacts"][0]["digest"] for run in runs if run["stage"] == "execute")
    answer = client.get(f"/api/v1/artefacts/{digest}")
    assert answer.content == b"{}"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["content-security-policy"] == "sandbox"


def test_a_diagnosis_hands_out_the_script_that_failed_alike(client: TestClient, sweep: Sweep) -> None:
    sweep("a/bert-broken")
    with reading() as session:
        first, second = list(session.scalars(select(DiagnosisRow.id).order_by(DiagnosisRow.id)))[:2]
    for path in (f"/api/v1/diagnoses/{first}/reproducer", f"/diagnoses/{first}/reproducer.py"):
        answer = client.get(path)
        assert answer.text.startswith("print(")
        assert answer.headers["content-type"].startswith("text/x-python")
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["content-security-policy"] == "sandbox"
    assert client.get(f"/api/v1/diagnoses/{second}/reproducer").status_code == 404
    assert client.get("/api/v1/diagnoses/999999/reproducer").status_code == 404
    page = client.get("/models/a/bert-broken").text
    assert f'href="/diagnoses/{first}/reproducer.py" download' in page
    assert "spyre-factory diagnose" not in page


def test_evidence_with_its_seeds_is_for_reviewers_only(
    client: TestClient, sweep: Sweep, reviewer: dict[str, str], token: Callable[..., dict[str, str]]
) -> None:
    sweep("a/bert-stock")
    runs = client.get("/api/v1/models/a/bert-stock").json()["runs"]
    path = next(f"/api/v1/artefacts/{r['artefacts'][1]['digest']}" for r in runs if r["stage"] == "execute")
    agent = token("drafter", PrincipalKind.AGENT, Role.VIEWER)
    assert client.get(path).status_code == client.get(path, headers=agent).status_code == 403
    answer = client.get(path, headers=reviewer)
    assert unpack_evidence(answer.content)["seeds"]["seeds"] == [11, 12]
    number = next(r["id"] for r in runs if r["stage"] == "execute")
    assert "seeds" not in client.get(f"/api/v1/runs/{number}", headers=agent).json()["evidence"]


def test_readiness_tells_how_long_work_has_waited(client: TestClient, sweep: Sweep) -> None:
    assert client.get("/readyz").json()["oldest_claimable_age_s"] is None
    sweep("a/bert-stock", finish=False)
    ready = client.get("/readyz").json()
    assert ready["oldest_claimable_age_s"] >= 0
    assert ready["runs"]["queued"] == 1


def test_readiness_says_that_the_queue_is_paused_and_what_scheduled_work_failed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/readyz").json()["failed_chore"] is None
    monkeypatch.setattr(chores, "MAX_ATTEMPTS", 1)
    with unit_of_work() as session:
        pause_queue(session)
        chores.plan(session, get_settings().model_copy(update={"catalog_refresh_hours": 24}))
        lease = chores.claim(session, "d")
        assert lease is not None
        chores.fail(session, lease, "the Hub is away")
    ready = client.get("/readyz").json()
    assert (ready["paused"], ready["failed_chore"]) == (True, "refresh: the Hub is away")


def test_metrics_count_by_route_not_by_address(client: TestClient, sweep: Sweep) -> None:
    sweep("a/albert-one")
    client.get("/api/v1/models/a/albert-one")
    client.get("/api/v1/models/no/such")
    text = client.get("/metrics").text
    assert 'spyre_factory_runs{state="done"} 5.0' in text
    assert "spyre_factory_reviews_waiting 1.0" in text
    assert 'route="/api/v1/models/{model:path}",status="404"' in text
    assert "no/such" not in text


def test_two_sweeps_are_compared(client: TestClient, sweep: Callable[..., int]) -> None:
    first, second = sweep("a/albert-one", "b/bert-stock"), sweep("b/bert-stock", "c/albert-two")
    listed = client.get("/api/v1/sweeps").json()["sweeps"]
    assert [row["sweep"] for row in listed] == [second, first]
    found = client.get("/api/v1/sweeps/compare", params={"first": first, "second": second}).json()
    assert {row["model"]: row["change"] for row in found["models"]} == {
        "a/albert-one": "left",
        "c/albert-two": "entered",
    }
    assert found["passing_in_both"] == 1
    unknown = client.get("/api/v1/sweeps/compare", params={"first": first, "second": 99})
    assert unknown.status_code == 404


def test_causes_and_profiles_are_served(client: TestClient, sweep: Callable[..., int]) -> None:
    sweep("a/albert-one", "b/bert-stock")
    ranked = client.get("/api/v1/ops").json()
    assert (ranked["not_passing"], len(ranked["ops"]), ranked["cheapest"][-1]["models"]) == (1, 3, 1)
    profiles = client.get("/api/v1/profiles").json()
    assert profiles["default"] == "profile-2026-08"
    assert "profile-ideal" in [row["name"] for row in profiles["profiles"]]
    found = client.get("/api/v1/profiles/compare", params={"a": "profile-2026-04", "b": "profile-2026-08"}).json()
    assert {"key": "errata.E-34", "a": None, "b": {}} in found["changes"]
    assert client.get("/api/v1/profiles/compare", params={"a": "moon", "b": "latest"}).status_code == 404
