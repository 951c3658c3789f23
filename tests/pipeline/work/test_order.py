"""The queue: requests before re-runs before sweeps, requesters in turn, most downloads first; and what is cancelled."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest
from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.requests.service import cancel_named, create_request
from pipeline.settings import Settings, get_settings
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.errors import UnknownSweep
from pipeline.sweeps.models import Sweep
from pipeline.work import memory, repository
from pipeline.work.control import cancel_everything, is_paused, pause_queue, resume_queue
from pipeline.work.models import Lane, Run, RunState
from pipeline.work.order import queued_before

Start = Callable[..., int]


def names(session: Session, run_ids: list[int]) -> list[str]:
    from pipeline.sweeps.models import Checkpoint

    found = [session.get_one(Run, run_id).checkpoint_id for run_id in run_ids]
    return [session.get_one(Checkpoint, number).model.name for number in found]


def claims(session: Session) -> list[str]:
    """Everything that can be claimed, in the order workers get it."""
    found: list[int] = []
    while (lease := repository.claim_next(session, f"w{len(found)}", 60)) is not None:
        found.append(lease.run_id)
    return names(session, found)


def asked(session: Session, requester: str, name: str, entry: Callable, downloads: int = 10) -> Run:
    """A request's first run, made for this requester."""
    from pipeline.sweeps.schemas import SweepOptions
    from pipeline.sweeps.service import start_sweep

    how = SweepOptions("profile-2026-08", requester=requester)
    sweep = start_sweep(session, f"request {name}", [entry(name, downloads=downloads)], how)
    return sweeps.sweep_runs(session, sweep.id)[0][0]


def test_requesters_take_turns_and_go_before_reruns_and_sweeps(database: str, sweep_of: Start, entry: Callable) -> None:
    sweep_of("s/one", "s/two")
    with unit_of_work() as session:
        repository.raise_lane(session, session.get_one(Run, 2), Lane.RERUN)
        for name, downloads in (("a/1", 5), ("a/2", 50), ("a/3", 7)):
            asked(session, "alice", name, entry, downloads)
        asked(session, "bob", "b/1", entry)
        asked(session, "carol", "c/1", entry)
        assert claims(session) == ["a/2", "b/1", "c/1", "a/3", "a/1", "s/two", "s/one"]


def test_the_position_told_is_the_order_of_claims(database: str, sweep_of: Start, entry: Callable) -> None:
    sweep_of("s/one", "s/two", "s/three")
    with unit_of_work() as session:
        for n in range(4):
            asked(session, "alice", f"a/{n}", entry)
        for n in range(2):
            asked(session, "bob", f"b/{n}", entry)
        first = repository.claim_next(session, "w", 60)
        assert first is not None
        queued = session.query(Run).filter_by(state="queued").all()
        told = [name for _, name in sorted((queued_before(session, run), *names(session, [run.id])) for run in queued)]
        assert sorted(queued_before(session, run) for run in queued) == list(range(len(queued)))
        assert claims(session) == told


def test_a_run_that_somebody_asks_for_leaves_the_sweeps_lane(database: str, sweep_of: Start, entry: Callable) -> None:
    sweep_of("s/one", "s/two")
    with unit_of_work() as session:
        request = create_request(session, "s/two", "profile-2026-08").request
        run = session.get_one(Run, 2)
        assert (run.lane, run.requester, run.request_id) == (Lane.REQUEST, "anybody", request.id)
        assert claims(session) == ["s/two", "s/one"]


def test_a_cancelled_request_leaves_what_others_need(database: str, sweep_of: Start, entry: Callable) -> None:
    sweep_of("s/one")
    with unit_of_work() as session:
        store_snapshot(session, "test", [entry("a/alone")])
        shared = create_request(session, "s/one", "profile-2026-08").request
        alone = create_request(session, "a/alone", "profile-2026-08").request
        kept, ended = cancel_named(session, shared.id), cancel_named(session, alone.id)
        assert (kept.ended, kept.kept, ended.kept) == ([], [1], [])
        session.expire_all()
        assert session.get_one(Run, 1).lane == Lane.SWEEP, "it waits as the sweep's run again"
        assert session.get_one(Run, ended.ended[0]).state == RunState.CANCELLED
        assert claims(session) == ["s/one"]
        assert cancel_named(session, alone.id).ended == [], "a second time does nothing"


def test_a_cancelled_run_is_taken_from_its_worker_and_comes_back_when_wanted(database: str, sweep_of: Start) -> None:
    from pipeline.work.errors import LeaseLost

    number = sweep_of("s/one")
    with unit_of_work() as session:
        lease = repository.claim_next(session, "w", 60)
        assert lease is not None
        assert cancel_named(session, str(number)).ended == [lease.run_id]
    with pytest.raises(LeaseLost), unit_of_work() as session:
        repository.renew(session, lease, 60)
    with reading() as session:
        assert session.get_one(Sweep, number).state == "cancelled"
        assert sweeps.count_unfinished_runs(session, number) == 0
    sweep_of("s/one")
    with unit_of_work() as session:
        run = session.get_one(Run, lease.run_id)
        assert (run.state, run.reason, run.deliveries) == (RunState.QUEUED, "", 0)
        again = repository.claim_next(session, "w", 60)
        assert again is not None
        assert again.fence > lease.fence


def test_everything_can_be_cancelled_and_an_unknown_number_is_said(database: str, sweep_of: Start) -> None:
    sweep_of("s/one", "s/two")
    with unit_of_work() as session:
        cancel_everything(session)
        assert repository.count_by_state(session)["cancelled"] == 2
        with pytest.raises(UnknownSweep):
            cancel_named(session, "77")


def test_pause_and_resume(database: str, sweep_of: Start) -> None:
    sweep_of("s/one")
    with unit_of_work() as session:
        repository.take_to_send(session, 1)
        pause_queue(session, "maintenance")
        assert is_paused(session)
        resume_queue(session)
        assert not is_paused(session)
        assert repository.take_to_send(session, 1) == [1], "what was sent before the pause is sent again"


@pytest.fixture
def two_slots(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_WORKERS", "2")
    monkeypatch.setenv("SPYRE_FACTORY_MEMORY_MB", "1000")
    get_settings.cache_clear()


def test_a_host_takes_what_fits_beside_what_it_runs(two_slots: None, database: str, sweep_of: Start) -> None:
    sweep_of("s/one", "s/two", "s/three")
    get_settings.cache_clear()
    with unit_of_work() as session:
        first, second = (session.get_one(Run, n) for n in (1, 2))
        first.peak_rss_mb, second.peak_rss_mb = 400, 500
        assert memory.has_room(session, 1, "here", get_settings()), "where nothing runs everything has room"
        repository.claim_run(session, 1, "here:1", 60)
        session.flush()
        assert not memory.has_room(session, 2, "here", get_settings()), "500 and 625 MiB do not fit into 1000"
        assert memory.has_room(session, 2, "elsewhere", get_settings())
        second.peak_rss_mb = 300
        session.flush()
        assert memory.has_room(session, 2, "here", get_settings())


def test_what_others_use_on_the_machine_is_not_given_away(
    two_slots: None, database: str, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_of("s/one", "s/two")
    real = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real._replace(available=100 * 1024 * 1024))
    with unit_of_work() as session:
        repository.claim_run(session, 1, "here:1", 60)
        session.get_one(Run, 2).peak_rss_mb = 300
        assert not memory.has_room(session, 2, "here", get_settings())


def test_a_run_without_room_stays_queued(
    two_slots: None, database: str, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.work import worker

    monkeypatch.setattr(worker, "ROOM_WAIT_S", 0.0)
    monkeypatch.setattr(memory, "has_room", lambda *_: False)
    sweep_of("s/one")
    assert not worker.work_on(1)
    with reading() as session:
        run = session.get_one(Run, 1)
        assert (run.state, run.deliveries, run.fence) == (RunState.QUEUED, 0, 0)


def test_a_bigger_model_is_expected_to_need_more(database: str, sweep_of: Start, entry: Callable) -> None:
    sweep_of("s/one")
    with unit_of_work() as session:
        run = session.get_one(Run, 1)
        run.stage = "execute"
        small = memory.expected_mb(session, run)
        checkpoint = sweeps.checkpoint_of_model(session, "s/one")
        assert checkpoint is not None
        checkpoint.facts = {**checkpoint.facts, "parameters": 100_000_000}
        assert memory.expected_mb(session, run) - small == pytest.approx(1526, abs=1), "16 bytes a parameter"
        run.peak_rss_mb = 800
        session.flush()
        assert memory.expected_mb(session, run) == 1000, "what was measured counts"
        full = Run(checkpoint_id=run.checkpoint_id, stage=run.stage, tier="full")
        assert memory.expected_mb(session, full) == pytest.approx(small + 1526, abs=1), "few layers say nothing of all"
    assert memory.budget_mb(get_settings()) == pytest.approx(memory.SHARE * memory.machine_mb())
