"""A request queues its model once per idempotency key, before any sweep, and its id threads through what it causes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from pipeline.database.accounts import ensure_principal, local_reviewer
from pipeline.database.events import events_of, last_number
from pipeline.database.models import OutboxEvent, PrincipalKind, Role
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.requests import repository as asked
from pipeline.requests.errors import IdempotencyConflict, QuotaExceeded, UnknownRequest
from pipeline.requests.idempotency import Key, answered, begin
from pipeline.requests.models import IdempotencyKey, RequestRow
from pipeline.requests.service import (
    Stage,
    cancel_request,
    close_finished_requests,
    create_request,
    request_status,
    stage_of,
)
from pipeline.review.candidates import get_candidate
from pipeline.review.models import CandidateRow, ReviewRow
from pipeline.review.service import approve, reject, seen_digest
from pipeline.settings import get_settings
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.errors import UnknownModel
from pipeline.sweeps.repository import list_sweeps
from pipeline.sweeps.service import close_finished
from pipeline.work import repository
from pipeline.work.models import Lane, Run

PROFILE = "profile-2026-08"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def key(body: object, key: str = "k", requester: str = "principal 1") -> Key:
    return Key(requester, "POST /x", key, body)


def test_a_key_keeps_its_answer_for_the_same_body(session: Session) -> None:
    first = begin(session, key({"model": "a/b"}))
    assert first.answer is None
    answered(first, 202, {"id": "1"})
    session.flush()
    again = begin(session, key({"model": "a/b"}))
    assert (again.status, again.answer) == (202, {"id": "1"})
    with pytest.raises(IdempotencyConflict, match="'k'"):
        begin(session, key({"model": "a/c"}))
    assert begin(session, key({"model": "a/c"}, requester="principal 2")).answer is None, "a key is its principal's own"


def test_a_key_is_forgotten_after_a_day(session: Session) -> None:
    answered(begin(session, key(1)), 202, {})
    session.flush()
    session.execute(update(IdempotencyKey).values(expires_at=database_now(session) - timedelta(seconds=1)))
    assert begin(session, key(2)).answer is None


def test_a_key_used_many_times_at_once_has_one_effect_and_one_answer(database: str) -> None:
    answers: list[object] = []

    def ask() -> None:
        with unit_of_work() as session:
            row = begin(session, key({"model": MINILM}))
            if row.answer is None:
                answered(row, 202, {"id": create_request(session, MINILM, PROFILE).request.id})
            answers.append(row.answer)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with reading() as session:
        assert answers == [{"id": session.query(RequestRow).one().id}] * 8


def test_the_same_is_open_once_for_each_principal(session: Session) -> None:
    who = [ensure_principal(session, name, PrincipalKind.SERVICE, [Role.REQUESTER]) for name in ("one", "two")]
    first, again = (create_request(session, MINILM, PROFILE, principal=who[0]) for _ in range(2))
    other = create_request(session, MINILM, PROFILE, principal=who[1])
    noted = create_request(session, MINILM, PROFILE, principal=who[0], note="for search")
    assert (first.created, again.created, other.created, noted.created) == (True, False, True, True)
    assert first.request.id == again.request.id
    assert session.query(Run).count() == 1, "the same work is done once for all of them"
    cancel_request(session, first.request)
    assert create_request(session, MINILM, PROFILE, principal=who[0]).created, "what has ended is not open"


def test_at_once_the_same_is_open_once(database: str) -> None:
    made: list[str] = []

    def ask() -> None:
        with unit_of_work() as session:
            made.append(create_request(session, MINILM, PROFILE).request.id)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(set(made))) == (8, 1)


@pytest.mark.parametrize("database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_at_once_the_same_takes_one_place_of_a_quota(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked for an open one before either makes it, which SQLite's one writer never lets happen."""
    monkeypatch.setenv("SPYRE_FACTORY_QUOTA_OPEN_REQUESTS", "1")
    get_settings.cache_clear()
    with unit_of_work() as session:
        who = ensure_principal(session, "one", PrincipalKind.SERVICE, [Role.REQUESTER])
    both, look, found = threading.Barrier(2), asked.lock_requester, list[str]()

    def lock_together(session: Session, principal_id: int | None) -> None:
        both.wait(20)
        look(session, principal_id)

    def ask() -> None:
        with unit_of_work() as session:
            found.append(create_request(session, MINILM, PROFILE, principal=who).request.id)

    monkeypatch.setattr(asked, "lock_requester", lock_together)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (2, 1)


@pytest.mark.parametrize(
    ("setting", "sentence"), [("QUOTA_OPEN_REQUESTS", "open already"), ("QUOTA_REQUESTS_PER_DAY", "within 24 hours")]
)
def test_a_requester_has_a_quota(
    setting: str, sentence: str, database: str, entry: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SPYRE_FACTORY_{setting}", "2")
    get_settings.cache_clear()
    with unit_of_work() as session:
        store_snapshot(session, "test", [entry(f"a/{n}", n) for n in range(1, 5)])
        who = ensure_principal(session, "one", PrincipalKind.SERVICE, [Role.REQUESTER])
        for n in (1, 2):
            create_request(session, f"a/{n}", PROFILE, principal=who)
        assert not create_request(session, "a/1", PROFILE, principal=who).created, "what is open costs nothing"
        create_request(session, "a/3", PROFILE)
        with pytest.raises(QuotaExceeded, match=sentence):
            create_request(session, "a/3", PROFILE, principal=who)
        if "OPEN" in setting:
            cancel_request(session, session.query(RequestRow).filter_by(model="a/1").one())
            assert create_request(session, "a/3", PROFILE, principal=who).created


def test_a_request_ends_when_nothing_more_comes(database: str, entry: Callable, drain: Callable[[], list[int]]) -> None:
    with unit_of_work() as session:
        store_snapshot(session, "test", [entry("a/stock-one"), entry("a/two", 2)])
        passes, waits = (create_request(session, name, PROFILE).request.id for name in ("a/stock-one", "a/two"))
        assert close_finished_requests(session) == []
    drain()
    with unit_of_work() as session:
        close_finished(session)
        assert close_finished_requests(session) == [passes], "the other waits for a human"
        assert stage_of(session, session.get_one(RequestRow, waits)) == Stage.REVIEW
        reject(session, 1, local_reviewer(session), reason="no")
        assert close_finished_requests(session) == [waits]
        assert session.get_one(RequestRow, waits).open_key is None
    with reading() as session:
        told = [(event.topic, event.payload.get("state")) for event in events_of(session, f"request:{passes}")]
        assert told[0] == ("request.created", None)
        assert told[-1] == ("request.finished", "ready")
        assert session.query(ReviewRow).one().request_id == waits


def test_a_release_keeps_the_request_open_until_its_runs_have_ended(
    database: str, entry: Callable, drain: Callable[[], list[int]]
) -> None:
    with unit_of_work() as session:
        store_snapshot(session, "test", [entry("a/one")])
        number = create_request(session, "a/one", PROFILE).request.id
    drain()
    with unit_of_work() as session:
        close_finished(session)
        seen = seen_digest(get_candidate(session, 1))
        approve(session, 1, local_reviewer(session), seen=seen, reason="ok")
        assert close_finished_requests(session) == []
    drain()
    with unit_of_work() as session:
        assert close_finished_requests(session) == [number]
        assert stage_of(session, session.get_one(RequestRow, number)) == Stage.READY


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
        caused = events_of(session, f"request:{request_id}", limit=1000)
        assert {"request.created", "run.finished", "candidate.drafted", "candidate.waiting"} <= {
            e.topic for e in caused
        }
        assert [event.number for event in caused] == list(range(1, last_number(session, f"request:{request_id}") + 1))
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


def test_a_request_s_sweep_does_not_push_others_out_of_the_list(database: str, sweep_of: Callable[..., int]) -> None:
    listed = sweep_of("a/one")
    with unit_of_work() as session:
        create_request(session, "a/one", PROFILE)
    with reading() as session:
        assert [sweep.id for sweep in list_sweeps(session, limit=1)] == [listed]
