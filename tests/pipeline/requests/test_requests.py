"""A request queues its model once per idempotency key, before any sweep, and its id threads through what it causes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy.orm import Session

from pipeline.database.events import events_after, last_event_id
from pipeline.database.models import OutboxEvent
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.requests.errors import IdempotencyConflict, UnknownRequest
from pipeline.requests.service import create_request, request_status
from pipeline.review.models import CandidateRow
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.errors import UnknownModel
from pipeline.work import repository
from pipeline.work.models import Lane, Run

PROFILE = "profile-2026-08"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def test_the_same_key_is_the_same_request(session: Session) -> None:
    first = create_request(session, MINILM, PROFILE, idempotency_key="k")
    second = create_request(session, MINILM, PROFILE, idempotency_key="k")
    assert (first.created, second.created) == (True, False)
    assert first.request.id == second.request.id
    assert session.query(Run).count() == 1


def test_the_same_key_with_another_body_is_a_conflict(session: Session) -> None:
    create_request(session, MINILM, PROFILE, idempotency_key="k")
    with pytest.raises(IdempotencyConflict, match="'k'"):
        create_request(session, MINILM, PROFILE, idempotency_key="k", note="another")


def test_a_model_nobody_lists_is_refused(database: str) -> None:
    with pytest.raises(UnknownModel, match="'a/none'"), unit_of_work() as session:
        create_request(session, "a/none", PROFILE)
    with reading() as session:
        assert session.query(Run).count() == 0
        assert session.query(OutboxEvent).count() == 0, "nothing half stored"


def test_a_request_goes_before_a_sweep(database: str, sweep_of: Callable[..., int]) -> None:
    sweep_of("a/one", "a/two")
    with unit_of_work() as session:
        wanted = create_request(session, "a/two", PROFILE).request
        lease = repository.claim_next(session, "w", 60)
        assert lease is not None
        run = session.get_one(Run, lease.run_id)
        assert (run.lane, run.requester, run.request_id) == (Lane.REQUEST, "anybody", wanted.id)
        assert request_status(session, wanted.id)["result"]["outcome"] == "unknown"


def test_the_id_threads_through_everything_it_causes(
    database: str, entry: Callable, drain: Callable[[], list[int]]
) -> None:
    with unit_of_work() as session:
        store_snapshot(session, "test", [entry("a/one")])
        request_id = create_request(session, "a/one", PROFILE).request.id
    drain()
    with reading() as session:
        assert {run.request_id for run in session.query(Run)} == {request_id}
        assert session.query(CandidateRow).one().request_id == request_id
        caused = [event for event in events_after(session, 0, 1000) if event.request_id == request_id]
        assert {"request.created", "run.finished", "candidate.drafted", "candidate.waiting"} <= {
            e.topic for e in caused
        }
        assert caused[-1].id <= last_event_id(session)
        status = request_status(session, request_id)
    assert status["result"]["waiting_candidate"] == 1


def test_a_finished_request_says_so(database: str, entry: Callable, drain: Callable[[], list[int]]) -> None:
    with unit_of_work() as session:
        store_snapshot(session, "test", [entry("a/stock-one")])
        request_id = create_request(session, "a/stock-one", PROFILE).request.id
        assert request_status(session, request_id)["state"] == "open"
    drain()
    with reading() as session:
        status = request_status(session, request_id)
    assert (status["state"], status["result"]["outcome"]) == ("done", "passed")


def test_an_unknown_request_is_one_sentence(session: Session) -> None:
    with pytest.raises(UnknownRequest):
        request_status(session, "nope")
