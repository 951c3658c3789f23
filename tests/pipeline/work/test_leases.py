"""The rows are the truth: who works on a run, who may finish it, and what becomes of what was lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.verification.policy import current_policy
from pipeline.work import repository
from pipeline.work.errors import LeaseLost
from pipeline.work.models import Outcome, Run, RunState
from pipeline.work.repository import MAX_ATTEMPTS, MAX_DELIVERIES
from pipeline.work.results import StageResult

PASSED = StageResult(Outcome.PASSED)


def expire_all(session: Session) -> None:
    session.execute(update(Run).values(lease_expires_at=database_now(session) - timedelta(seconds=1)))


def only_run(session: Session) -> Run:
    return session.query(Run).one()


@pytest.fixture
def run_id(database: str, sweep_of: Callable[..., int]) -> int:
    sweep_of("a/one")
    with reading() as session:
        return only_run(session).id


def test_a_run_is_claimed_by_one(run_id: int) -> None:
    with unit_of_work() as session:
        first = repository.claim_run(session, run_id, "w1", 60)
        assert first is not None
        assert repository.claim_run(session, run_id, "w2", 60) is None
        assert repository.claim_next(session, "w2", 60) is None


def test_claims_follow_priority_then_age(database: str, sweep_of: Callable[..., int]) -> None:
    sweep_of("a/one", "a/two", "a/three")
    with unit_of_work() as session:
        last = session.query(Run).order_by(Run.id.desc()).first()
        assert last is not None
        repository.raise_priority(session, last, 50)
        order = [repository.claim_next(session, "w", 60) for _ in range(4)]
    assert [lease.run_id if lease else None for lease in order] == [last.id, 1, 2, None]


def test_a_finish_with_an_old_fencing_number_is_refused(run_id: int) -> None:
    with unit_of_work() as session:
        old = repository.claim_run(session, run_id, "w1", 60)
        expire_all(session)
        repository.recover_lost(session)
        new = repository.claim_run(session, run_id, "w2", 60)
        assert old is not None
        assert new is not None
        assert new.fence == old.fence + 1
    with pytest.raises(LeaseLost), unit_of_work() as session:
        repository.finish(session, old, PASSED, {})
    with pytest.raises(LeaseLost), unit_of_work() as session:
        repository.renew(session, old, 60)
    with unit_of_work() as session:
        assert repository.finish(session, new, PASSED, {}).outcome == Outcome.PASSED
    with pytest.raises(LeaseLost), unit_of_work() as session:
        repository.finish(session, new, PASSED, {})


def test_a_lost_lease_goes_back_to_the_queue_and_is_sent_again(run_id: int) -> None:
    with unit_of_work() as session:
        assert repository.take_to_send(session, 5) == [run_id]
        repository.claim_run(session, run_id, "w1", 60)
        assert repository.recover_lost(session).requeued == [], "a live lease is left alone"
        expire_all(session)
        assert repository.recover_lost(session).requeued == [run_id]
        assert repository.take_to_send(session, 5) == [run_id]


def test_a_run_that_loses_its_worker_three_times_is_crashed(run_id: int) -> None:
    with unit_of_work() as session:
        for _ in range(MAX_DELIVERIES - 1):
            assert repository.claim_run(session, run_id, "w", 60) is not None
            expire_all(session)
            assert repository.recover_lost(session).requeued == [run_id]
        repository.claim_run(session, run_id, "w", 60)
        expire_all(session)
        assert repository.recover_lost(session).crashed == [run_id]
        session.expire_all()
        run = only_run(session)
        assert (run.state, run.outcome, run.kind) == (RunState.DONE, Outcome.FAILED, "crashed")


def test_workers_that_are_known_to_be_gone_cost_no_delivery(run_id: int) -> None:
    with unit_of_work() as session:
        for _ in range(MAX_DELIVERIES + 2):
            assert repository.claim_run(session, run_id, "host:1", 60) is not None
            assert repository.free_leases_of(session, "") == 1
        session.expire_all()
        assert only_run(session).deliveries == 0


def test_giving_back_costs_no_delivery(run_id: int) -> None:
    with unit_of_work() as session:
        lease = repository.claim_run(session, run_id, "w", 60)
        assert lease is not None
        repository.give_back(session, lease)
        session.expire_all()
        assert (only_run(session).state, only_run(session).deliveries) == (RunState.QUEUED, 0)


def test_two_infra_in_a_row_make_a_candidate_unknown_in_its_environment(run_id: int) -> None:
    """Failing as infrastructure gives a candidate no endless new draws; the same run is not queued again."""
    with unit_of_work() as session:
        session.execute(update(Run).values(stage="verify"))
    outcomes = []
    for _ in range(current_policy().guards["infra_in_a_row"]):
        with unit_of_work() as session:
            session.execute(update(Run).values(not_before=None))
            lease = repository.claim_run(session, run_id, "w", 60)
            assert lease is not None
            run = repository.finish(session, lease, StageResult(Outcome.INFRA, "disk full"), {})
            outcomes.append((run.state, run.outcome))
    assert outcomes == [(RunState.QUEUED, None), (RunState.DONE, Outcome.UNKNOWN)]
    assert run.reason == "Our fault 2 times in a row, the last: disk full"


def test_infra_is_tried_again_later_and_then_stays(run_id: int) -> None:
    for attempt in range(1, MAX_ATTEMPTS + 1):
        with unit_of_work() as session:
            session.execute(update(Run).values(not_before=None))
            lease = repository.claim_run(session, run_id, "w", 60)
            assert lease is not None
            run = repository.finish(session, lease, StageResult(Outcome.INFRA, "disk full"), {})
            assert run.attempts == attempt
            if attempt < MAX_ATTEMPTS:
                assert run.state == RunState.QUEUED
                assert run.not_before is not None
                assert repository.claim_run(session, run_id, "w", 60) is None, "not before its time"
    assert (run.state, run.outcome) == (RunState.DONE, Outcome.INFRA)


def test_work_that_ended_in_infra_is_queued_again_when_it_is_wanted_again(
    run_id: int, sweep_of: Callable[..., int]
) -> None:
    with unit_of_work() as session:
        session.execute(update(Run).values(state=RunState.DONE, outcome=Outcome.INFRA, attempts=MAX_ATTEMPTS))
    sweep_of("a/one")
    with reading() as session:
        assert (only_run(session).state, only_run(session).attempts) == (RunState.QUEUED, 0)


def test_the_broker_is_never_given_more_than_asked_for(database: str, sweep_of: Callable[..., int]) -> None:
    sweep_of("a/one", "a/two", "a/three")
    with unit_of_work() as session:
        assert repository.take_to_send(session, 2) == [1, 2]
        assert repository.count_outstanding(session) == 2
        repository.claim_run(session, 1, "w", 60)
        assert repository.count_outstanding(session) == 1
        assert repository.take_to_send(session, 2) == [3]
        assert repository.take_to_send(session, 2) == []


def test_a_message_is_a_hint_the_first_in_the_queue_is_done(database: str, sweep_of: Callable[..., int]) -> None:
    sweep_of("a/one", "a/two", "a/three")
    with unit_of_work() as session:
        assert repository.take_to_send(session, 1) == [1]
        last = session.get_one(Run, 3)
        repository.raise_priority(session, last, 50)
        lease = repository.claim_hinted(session, 1, "w", 60)
        assert lease is not None
        assert lease.run_id == 3, "it came first by priority, though the message named another"
        assert repository.count_outstanding(session) == 0
        assert repository.take_to_send(session, 5) == [1, 2], "the run that was passed over gets a message of its own"
        again = repository.claim_hinted(session, 1, "w", 60)
        assert again is not None
        assert again.run_id == 1


def test_messages_in_another_order_than_sent_leave_no_run_without_one(
    database: str, sweep_of: Callable[..., int]
) -> None:
    sweep_of("a/one", "a/two", "a/three")
    with unit_of_work() as session:
        assert repository.take_to_send(session, 2) == [1, 2]
        leases = [repository.claim_hinted(session, hint, "w", 60) for hint in (2, 1)]
        assert [lease.run_id for lease in leases if lease] == [1, 2]


def test_a_message_delivered_twice_takes_nothing_that_was_not_sent(database: str, sweep_of: Callable[..., int]) -> None:
    sweep_of("a/one", "a/two")
    with unit_of_work() as session:
        assert repository.take_to_send(session, 1) == [1]
        assert repository.claim_hinted(session, 1, "w", 60) is not None
        assert repository.claim_hinted(session, 1, "w", 60) is None


def test_messages_that_nobody_took_are_forgotten(run_id: int) -> None:
    with unit_of_work() as session:
        repository.take_to_send(session, 1)
        assert repository.mark_unsent(session, older_than_s=60) == 0
        assert repository.mark_unsent(session, older_than_s=None) == 1
        assert repository.take_to_send(session, 1) == [run_id]


def test_many_workers_at_once_never_get_the_same_run(database: str, sweep_of: Callable[..., int]) -> None:
    names = [f"a/m{i}" for i in range(12)]
    sweep_of(*names)
    taken: list[int] = []

    def work(owner: str) -> None:
        while True:
            with unit_of_work() as session:
                lease = repository.claim_next(session, owner, 60)
            if lease is None:
                return
            taken.append(lease.run_id)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 13))


def test_readiness_says_how_long_the_oldest_run_waits(run_id: int) -> None:
    with unit_of_work() as session:
        assert (repository.oldest_claimable_age_s(session) or -1) >= 0
        repository.claim_run(session, run_id, "w", 60)
        assert repository.oldest_claimable_age_s(session) is None
        assert repository.count_by_state(session) == {"queued": 0, "claimed": 1, "done": 0, "cancelled": 0}
