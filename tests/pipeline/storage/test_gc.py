"""`gc` removes what is past its retention and needed by nothing; what adapters and statuses rest on stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pipeline.database.accounts import local_reviewer
from pipeline.database.artefacts import artefact_path, read_artefact, store_bytes
from pipeline.database.models import Artefact, ArtefactContent
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.errors import NotFound
from pipeline.review import service
from pipeline.review.repository import list_candidates
from pipeline.settings import get_settings
from pipeline.storage.gc import collect
from pipeline.work.invariants import broken, violations
from pipeline.work.models import Run

Act = Callable[..., Any]
SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def age(days: float) -> None:
    """Let every artefact be so many days old."""
    with unit_of_work() as session:
        for row in session.query(Artefact):
            row.created_at = database_now(session) - timedelta(days=days)


def stored() -> set[str]:
    with reading() as session:
        return {row.digest for row in session.query(Artefact)}


def test_what_an_adapter_and_a_status_rest_on_stays_for_ever(database: str, sweep_of: Act, drain: Act) -> None:
    sweep_of("a/real-one", "a/stock-two")
    drain()
    with unit_of_work() as session:
        candidate = list_candidates(session)[0]
        seen = service.seen_digest(candidate)
        service.approve(session, candidate.id, local_reviewer(session), seen=seen, reason="ok")
    drain()
    before = stored()
    assert before
    age(10_000)
    with reading() as session:
        behind = {item["digest"] for run in session.query(Run).filter_by(stage="verify") for item in run.artefacts}
    collect(get_settings())
    assert behind <= stored()
    with reading() as session:
        assert broken(violations(session)) == []


@SQLITE
def test_what_nothing_names_goes_after_a_day_and_a_dry_run_removes_nothing(database: str) -> None:
    with unit_of_work() as session:
        lost = store_bytes(session, b"nobody names it", "plot")
    assert collect(get_settings()).counts["artefacts"] == 0
    age(2)
    assert collect(get_settings(), dry_run=True).counts["artefacts"] == 1
    assert artefact_path(lost).exists()
    done = collect(get_settings())
    assert (done.counts["artefacts"], done.bytes) == (1, len(b"nobody names it"))
    assert not artefact_path(lost).exists()
    assert stored() == set()


@SQLITE
def test_a_run_no_longer_names_what_is_past_its_retention(database: str, sweep_of: Act, drain: Act) -> None:
    sweep_of("a/stock-one")
    drain()
    with unit_of_work() as session:
        old = store_bytes(session, b"a plot", "plot")
        run = session.query(Run).filter_by(stage="inspect").one()
        run.artefacts = [{"digest": old, "kind": "plot", "name": "p.svg", "bytes": 6}]
    age(89)
    collect(get_settings())
    assert old in stored()
    age(91)
    collect(get_settings())
    assert old not in stored()
    with reading() as session:
        assert session.query(Run).filter_by(stage="inspect").one().artefacts == []
        assert broken(violations(session)) == []


@SQLITE
def test_files_without_a_row_and_old_logs_go(database: str) -> None:
    settings = get_settings()
    part = settings.data_dir / "artefacts" / "ab" / ".part-x"
    log = settings.data_dir / "logs" / "worker.log"
    for path in (part, log):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"12345")
        os.utime(path, (0, 0))
    done = collect(settings)
    assert (done.counts["files that no row names"], done.counts["logs"], done.bytes) == (1, 1, 10)
    assert not part.exists()
    assert not log.exists()


def test_artefacts_can_be_kept_in_the_database(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_ARTEFACT_STORE", "database")
    get_settings.cache_clear()
    with unit_of_work() as session:
        digest = store_bytes(session, b"shared by hosts", "evidence")
        assert store_bytes(session, b"shared by hosts", "evidence") == digest
    assert not artefact_path(digest).exists()
    assert read_artefact(digest) == b"shared by hosts"
    age(2)
    collect(get_settings())
    with reading() as session:
        assert session.query(ArtefactContent).count() == 0
    with pytest.raises(NotFound):
        read_artefact(digest)
