"""Scheduled work happens once per period, whoever runs the dispatcher, and is tried again when it is our fault."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import update

from pipeline.catalogue.local_hub import LocalHub, model_from_entry
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.settings import Settings, get_settings
from pipeline.sweeps import repository as sweeps
from pipeline.work import chores
from pipeline.work.errors import LeaseLost
from pipeline.work.models import Chore, Run


@pytest.fixture
def scheduled(database: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The database with a refresh and a sweep planned for this hour."""
    monkeypatch.setenv("SPYRE_FACTORY_CATALOG_REFRESH_HOURS", "1000000")
    monkeypatch.setenv("SPYRE_FACTORY_SWEEP_HOURS", "1000000")
    get_settings.cache_clear()
    with unit_of_work() as session:
        chores.plan(session, get_settings())
    return get_settings()


def only(session: object, name: str) -> Chore:
    return session.query(Chore).filter_by(name=name).one()  # type: ignore[attr-defined]


def test_a_period_is_planned_once(scheduled: Settings) -> None:
    with unit_of_work() as session:
        chores.plan(session, scheduled)
        assert sorted(chore.name for chore in session.query(Chore)) == ["refresh", "sweep"]


def test_nothing_is_planned_by_default(database: str) -> None:
    with unit_of_work() as session:
        chores.plan(session, get_settings())
        assert session.query(Chore).count() == 0


def test_a_chore_is_one_dispatchers_and_an_old_lease_is_refused(scheduled: Settings) -> None:
    with unit_of_work() as session:
        first, second = chores.claim(session, "d1"), chores.claim(session, "d2")
        assert first is not None
        assert second is not None
        assert {first.name, second.name} == {"refresh", "sweep"}
        assert chores.claim(session, "d3") is None
        session.execute(update(Chore).values(lease_expires_at=database_now(session) - timedelta(seconds=1)))
        again = chores.claim(session, "d3")
        assert again is not None
        assert (again.chore_id, again.fence) == (first.chore_id, first.fence + 1)
        with pytest.raises(LeaseLost):
            chores.finish(session, first)
        chores.finish(session, again, "done")
        with pytest.raises(LeaseLost):
            chores.finish(session, again)


def test_a_chore_that_fails_is_tried_again_and_then_said(scheduled: Settings) -> None:
    with unit_of_work() as session:
        session.query(Chore).filter_by(name="sweep").delete()
        for attempt in range(1, chores.MAX_ATTEMPTS + 1):
            session.execute(update(Chore).values(not_before=None))
            lease = chores.claim(session, "d")
            assert lease is not None
            chores.fail(session, lease, "the Hub is away")
            session.expire_all()
            state = only(session, "refresh").state
            assert state == ("done" if attempt == chores.MAX_ATTEMPTS else "queued")
            assert chores.claim(session, "d") is None
        failure = chores.last_failure(session)
        assert failure is not None
        assert (failure.outcome, failure.reason) == ("infra", "the Hub is away")


def test_a_scheduled_sweep_takes_the_newest_catalogue(scheduled: Settings, sweep_of: Callable[..., int]) -> None:
    sweep_of("a/stock-one", "a/stock-two", source="listed")
    with unit_of_work() as session:
        session.query(Chore).filter_by(name="refresh").delete()
        lease = chores.claim(session, "d")
    assert lease is not None
    assert chores.main([str(lease.chore_id), str(lease.fence)]) == 0
    with reading() as session:
        assert only(session, "sweep").reason == "sweep 2"
        assert [run.stage for run, _ in sweeps.sweep_runs(session, 2)] == ["inspect", "inspect"]
        assert session.query(Run).count() == 2, "the same work is no second row"
    with pytest.raises(LeaseLost):
        chores._sweep(lease, scheduled)
    with reading() as session:
        assert len(sweeps.list_sweeps(session)) == 2, "an old lease starts no sweep"


def test_a_scheduled_refresh_runs_in_a_child(
    scheduled: Settings, entry: Callable, monkeypatch: pytest.MonkeyPatch, wait: Callable
) -> None:
    with LocalHub([model_from_entry(entry("a/one")), model_from_entry(entry("a/two", 2))]) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        runner = chores.ChoreRunner(scheduled)
        runner.turn()
        wait(lambda: done("refresh"))
    with reading() as session:
        assert only(session, "refresh").reason == "snapshot 1: 2 models listed"


def done(name: str) -> bool:
    with reading() as session:
        return only(session, name).state == "done"
