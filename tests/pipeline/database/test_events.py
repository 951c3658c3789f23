"""Events are numbered per stream without gaps, and none can be read before a lower number of its stream."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from pipeline.database import faults
from pipeline.database.errors import DatabaseUnavailable
from pipeline.database.events import emit, events_of, last_number
from pipeline.database.faults import POINTS, fault_point
from pipeline.database.models import OutboxEvent
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.settings import Settings, get_settings

WRITERS, EACH = 6, 15


def numbers(stream: str, after: int = 0) -> list[int | None]:
    with reading() as session:
        return [event.number for event in events_of(session, stream, after, 10_000)]


def test_an_event_is_told_to_its_request_its_sweeps_and_its_subject(database: str) -> None:
    with unit_of_work() as session:
        emit(session, "run.finished", "run", 7, request_id="r", sweeps=[1, 2], stage="inspect")
        emit(session, "run.finished", "run", 8)
        emit(session, "candidate.waiting", "candidate", 3, request_id="r")
    with reading() as session:
        found = {(event.stream, event.number, event.topic) for event in session.query(OutboxEvent)}
    assert found == {
        ("request:r", 1, "run.finished"),
        ("sweep:1", 1, "run.finished"),
        ("sweep:2", 1, "run.finished"),
        ("run:8", 1, "run.finished"),
        ("request:r", 2, "candidate.waiting"),
        ("candidate:3", 1, "candidate.waiting"),
    }


def test_what_is_rolled_back_is_not_told_and_leaves_no_gap(database: str) -> None:
    with pytest.raises(ZeroDivisionError), unit_of_work() as session:
        emit_and_fail(session)
    with unit_of_work() as session:
        emit(session, "y", "sweep", 1)
    assert numbers("sweep:1") == [1]


def emit_and_fail(session: Session) -> None:
    emit(session, "x", "sweep", 1)
    raise ZeroDivisionError


def test_a_reader_never_misses_what_writers_commit_at_once(database: str) -> None:
    """Writers commit in any order; a reader that always asks for what follows the last number sees all, in order."""
    seen: list[int] = []
    over = threading.Event()

    def write(name: int) -> None:
        for n in range(EACH):
            with unit_of_work() as session:
                emit(session, "step", "sweep", 1, request_id=f"r{name % 2}", writer=name, n=n)

    def read() -> None:
        while True:
            last_turn = over.is_set()
            with reading() as session:
                found = events_of(session, "sweep:1", seen[-1] if seen else 0)
            seen.extend(event.number or 0 for event in found)
            if last_turn and not found:
                return

    writers = [threading.Thread(target=write, args=(name,)) for name in range(WRITERS)]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    reader.join()
    assert seen == list(range(1, WRITERS * EACH + 1))
    with reading() as session:
        assert last_number(session, "sweep:1") == WRITERS * EACH
        assert last_number(session, "request:r0") + last_number(session, "request:r1") == WRITERS * EACH
        assert last_number(session, "request:none") == 0


def test_what_follows_a_number_is_read_in_portions(database: str) -> None:
    with unit_of_work() as session:
        for n in range(5):
            emit(session, "x", "sweep", 1, n=n)
    with reading() as session:
        assert [event.payload["n"] for event in events_of(session, "sweep:1", 1, 2)] == [1, 2]


def test_faults_are_refused_outside_test_mode(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="SPYRE_FACTORY_TEST_MODE"):
        Settings(fault="before_commit:kill")
    with pytest.raises(ValueError, match="fault"):
        Settings(fault="before_commit:explode", test_mode=True)


def test_a_fault_strikes_at_its_passage_and_rolls_back(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_TEST_MODE", "true")
    monkeypatch.setenv("SPYRE_FACTORY_FAULT", "before_commit:fail:2")
    monkeypatch.setattr("pipeline.database.faults._passed", Counter())
    get_settings.cache_clear()
    with unit_of_work() as session:
        emit(session, "x", "sweep", 1)
    with pytest.raises(DatabaseUnavailable, match="asked for"), unit_of_work() as session:
        emit(session, "x", "sweep", 1)
    assert numbers("sweep:1") == [1]


def test_every_named_point_is_somewhere_in_the_program(settings: Settings) -> None:
    sources = [path.read_text() for path in Path(faults.__file__).parents[1].rglob("*.py")]
    for point in POINTS:
        assert any(f'fault_point("{point}")' in text for text in sources), point
    fault_point("before_commit")
