"""Evidence is measured again by the queue: asked for by POST or by a button, its verdict shown beside the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.database.artefacts import read_artefact
from pipeline.database.unit_of_work import unit_of_work
from pipeline.review.evidence import document_digest
from pipeline.review.models import EvidenceRow
from pipeline.settings import Settings

Drain = Callable[[], int]


@pytest.fixture
def evidence(client: TestClient, sweep: Callable[..., int], reviewer: dict[str, str]) -> int:
    """Evidence of a candidate that waits for review."""
    sweep("acme/albert-one")
    client.headers.update(reviewer)
    (found,) = client.get("/api/v1/evidence").json()["evidence"]
    return int(found["id"])


def ask(client: TestClient, number: int, **how: Any) -> Any:
    return client.post(f"/api/v1/evidence/{number}/replay", json=how)


def replays(client: TestClient, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/api/v1/evidence/{number}").json()["replays"]
    return found


def test_a_replay_waits_in_the_queue_and_its_verdict_is_seen_afterwards(
    client: TestClient, evidence: int, work: Drain
) -> None:
    asked = ask(client, evidence)
    assert asked.status_code == 202
    assert (asked.json()["state"], asked.json()["outcome"]) == ("queued", None)
    work()
    (done,) = replays(client, evidence)
    assert done["id"] == asked.json()["id"]
    assert (done["state"], done["outcome"], done["identical"], done["threads"]) == ("done", "passed", True, 1)


def test_a_replay_that_gives_another_verdict_says_what_differs_and_changes_nothing(
    client: TestClient, evidence: int, work: Drain
) -> None:
    before = client.get(f"/api/v1/evidence/{evidence}").json()
    model = client.get("/api/v1/models/acme/albert-one").json()["outcome"]
    ask(client, evidence, threads=2, capability="avx2")
    work()
    after = client.get(f"/api/v1/evidence/{evidence}").json()
    (done,) = after.pop("replays")
    assert (done["outcome"], done["differences"]) == ("failed", ["cases: 8 then, 7 now"])
    assert before.items() >= after.items()
    assert client.get("/api/v1/models/acme/albert-one").json()["outcome"] == model


def test_the_same_replay_is_one_run_and_another_way_is_another(client: TestClient, evidence: int) -> None:
    first, again, other = (ask(client, evidence, threads=n).json()["id"] for n in (1, 1, 2))
    assert first == again != other
    assert [row["id"] for row in replays(client, evidence)] == [other, first]


def test_hidden_seeds_reach_the_child_and_no_answer(client: TestClient, evidence: int, work: Drain) -> None:
    run = ask(client, evidence).json()["id"]
    work()
    for path in (f"/api/v1/runs/{run}", f"/api/v1/evidence/{evidence}", "/review/1"):
        assert "seeds" not in client.get(path).text


def test_evidence_without_a_document_cannot_be_replayed(client: TestClient, evidence: int) -> None:
    with unit_of_work() as session:
        session.get_one(EvidenceRow, evidence).artefacts = []
    refused = ask(client, evidence)
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_replay")
    assert replays(client, evidence) == []


def test_a_document_that_vanished_meanwhile_is_our_fault_and_said_so(
    client: TestClient, evidence: int, work: Drain, settings: Settings
) -> None:
    ask(client, evidence)
    with unit_of_work() as session:
        address = document_digest(session.get_one(EvidenceRow, evidence).artefacts)
    for path in (settings.data_dir / "artefacts").rglob(f"*{str(address)[2:]}*"):
        path.unlink()
    work()
    (row,) = replays(client, evidence)
    assert row["outcome"] is None, "it is tried again"
    assert str(address)[:12] in row["reason"]


@pytest.mark.parametrize(
    ("number", "body", "code"),
    [
        (77, {}, 404),
        (0, {}, 422),
        (1, {"threads": 0}, 422),
        (1, {"threads": "many"}, 422),
        (1, {"capability": "sse"}, 422),
        (1, {"device": "hardware"}, 422),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_words(
    client: TestClient, evidence: int, number: int, body: dict[str, Any], code: int
) -> None:
    answer = ask(client, number, **body)
    assert answer.status_code == code
    assert answer.headers["content-type"] == "application/problem+json"
    assert replays(client, evidence) == []


def test_the_document_of_then_is_what_the_child_is_given(client: TestClient, evidence: int) -> None:
    from pipeline.review.replays import spec_of
    from pipeline.verification.evidence import unpack_evidence
    from pipeline.work.models import Run

    number = ask(client, evidence).json()["id"]
    with unit_of_work() as session:
        spec = spec_of(session, session.get_one(Run, number))
        address = document_digest(session.get_one(EvidenceRow, evidence).artefacts)
    assert address is not None
    assert spec["document"] == unpack_evidence(read_artefact(address))
    assert spec["document"]["seeds"], "a replay draws the same texts again"


def test_the_button_on_the_candidates_page_asks_for_a_replay(browser: TestClient, sweep: Any, work: Drain) -> None:
    sweep("acme/albert-one")
    page = browser.get("/review/1").text
    csrf = page.split('name="csrf" value="')[1].split('"')[0]
    sent = browser.post("/evidence/1/replay", data={"csrf": csrf})
    assert (sent.status_code, sent.headers["location"]) == (303, "/review/1#evidence-1")
    page = browser.get("/review/1").text
    assert "Measured again" in page
    assert "queued" in page
    work()
    assert "The same verdict came out" in browser.get("/review/1").text
