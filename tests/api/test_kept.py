"""Counted figures are kept: until something happens, and a costly one is counted beside the request."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy.orm import Session

from api.kept import Kept
from pipeline.database.events import emit
from pipeline.database.unit_of_work import reading, unit_of_work


@pytest.fixture
def kept(database: str) -> Kept:
    return Kept()


def happen() -> None:
    with unit_of_work() as session:
        emit(session, "sweep.started", "sweep", 1)


def test_a_value_is_counted_again_when_something_has_happened(kept: Kept) -> None:
    values = iter(range(10))
    with reading() as session:
        assert [kept.get(session, "n", lambda: next(values)).value for _ in range(3)] == [0, 0, 0]
    happen()
    with reading() as session:
        for entry in kept._entries.values():
            entry.fresh_until = 0.0
        assert kept.get(session, "n", lambda: next(values)).value == 1


def test_a_costly_value_is_counted_beside_the_request_and_once(kept: Kept) -> None:
    begun, go_on = threading.Event(), threading.Event()
    counted = []

    def count(own: Session) -> Any:
        begun.set()
        assert go_on.wait(60)
        counted.append(own)
        return len(counted)

    with reading() as session:
        assert kept.soon(session, "sets", count) is None
        assert begun.wait(60)
        assert kept.soon(session, "sets", count) is None
        go_on.set()
        kept.wait()
        found = kept.soon(session, "sets", count)
        assert found is not None
        assert found.value == 1
        assert counted[0] is not session


def test_the_old_value_stands_while_a_new_one_is_counted(kept: Kept) -> None:
    with reading() as session:
        kept.soon(session, "sets", lambda own: "old")
        kept.wait()
    happen()
    with reading() as session:
        for entry in kept._entries.values():
            entry.fresh_until = 0.0
        found = kept.soon(session, "sets", lambda own: "new")
        assert found is not None
        assert found.value == "old"
        kept.wait()
        found = kept.soon(session, "sets", lambda own: "newer")
    assert found is not None
    assert found.value == "new"
    kept.wait()
