"""The dispatcher keeps one connection to the broker, makes it anew when it breaks, and looks at little when idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from pipeline.database.engine import looking_engine
from pipeline.settings import get_settings
from pipeline.work import dispatcher, tasks
from pipeline.work.dispatcher import Sender


class Connection:
    """Stands for a connection; knows whether it was given back."""

    def __init__(self) -> None:
        self.open = True

    def release(self) -> None:
        self.open = False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """Every connection that was opened."""
    found: list[Connection] = []

    def opened() -> Connection:
        found.append(Connection())
        return found[-1]

    monkeypatch.setattr(tasks.app, "connection_for_write", opened)
    return found


def test_one_connection_carries_all_messages(made: list[Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(tasks.run_stage, "apply_async", lambda args, **_: sent.extend(args))
    sender = Sender()
    for number in (1, 2, 3):
        sender.send(number)
    sender.close()
    assert (sent, [connection.open for connection in made]) == ([1, 2, 3], [False])


def test_a_broken_connection_is_made_anew_and_a_broker_that_is_away_is_no_error(
    made: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    broken = [False, True, False, True, True]

    def send(args: list[int], **_: Any) -> None:
        if broken.pop(0):
            raise OSError("connection reset")
        sent.extend(args)

    monkeypatch.setattr(tasks.run_stage, "apply_async", send)
    sender = Sender()
    for number in (1, 2, 3):
        sender.send(number)
    assert sent == [1, 2], "the second was sent again over a new connection, the third is left to the sweeper"
    assert [connection.open for connection in made] == [False, False, False]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_idle_turn_is_one_statement(database: str, sweep_of: Callable[..., int], drain: Callable[[], Any]) -> None:
    sweep_of("a/stock-one")
    drain()
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):  # ours on SQLite; nothing is sent for it on PostgreSQL
            statements.append(statement)

    engine = looking_engine()
    event.listen(engine, "before_cursor_execute", note)
    try:
        assert dispatcher.dispatch(get_settings()) == 0
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert len(statements) == 1
