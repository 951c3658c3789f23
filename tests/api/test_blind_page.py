"""/blind: a reviewer judges a candidate whose truth is known, learns the truth afterwards, and sees the figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.database.unit_of_work import unit_of_work
from pipeline.review.models import CandidateState
from pipeline.review.repository import get_candidate


@pytest.fixture
def known_bad(browser: TestClient, sweep: Callable[..., int]) -> TestClient:
    """A reviewer's browser, and one candidate that the gate refused."""
    sweep("acme/albert-one")
    with unit_of_work() as session:
        get_candidate(session, 1).state = CandidateState.REFUSED
    return browser


def answer(browser: TestClient, **said: str) -> Any:
    csrf = re.search(r'name="csrf" value="([^"]*)"', browser.get("/blind").text)
    assert csrf is not None
    return browser.post("/blind/1", data={"csrf": csrf.group(1), **said})


def test_the_candidate_is_shown_without_evidence_or_state(known_bad: TestClient) -> None:
    page = known_bad.get("/blind").text
    assert "pow_cube" in page, "what the patch claims"
    assert "Evidence" not in page
    assert "refused by the gate or released" in page, "of which it does not say which"
    assert "0.99912" not in page


def test_the_truth_is_told_after_the_answer_and_counted(known_bad: TestClient) -> None:
    assert "was bad" not in known_bad.get("/blind?answered=1").text
    sent = answer(known_bad, answer="approve", reason="It looked right.")
    assert (sent.status_code, sent.headers["location"]) == (303, "/blind?answered=1")
    page = known_bad.get(sent.headers["location"]).text
    assert "Candidate 1 was bad" in page
    assert "None is left for you to judge" in page
    assert "1 of 1" in page, "let through"


@pytest.mark.parametrize("said", [{"answer": "maybe", "reason": "x"}, {"answer": "approve"}, {"reason": "x"}])
def test_half_an_answer_is_refused_and_not_kept(known_bad: TestClient, said: dict[str, str]) -> None:
    assert answer(known_bad, **said).status_code == 422
    assert "Nobody has judged one yet" in known_bad.get("/blind").text


def test_the_queue_leads_there(known_bad: TestClient) -> None:
    assert 'href="/blind"' in known_bad.get("/review").text
