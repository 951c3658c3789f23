"""Event streams: from the beginning or from what was seen, ended when there is nothing more, capped, kept alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api import events
from api.errors import TooManyStreams
from api.feeds import Feeds
from pipeline.database.unit_of_work import unit_of_work
from pipeline.requests.service import close_finished_requests

Sweep = Callable[..., int]
ROUTE = "/api/v1/requests"


def parsed(text: str) -> list[dict[str, str]]:
    """The events of a stream, without comments and the retry time."""
    blocks = [block for block in text.split("\n\n") if block.startswith("id: ")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


@pytest.fixture
def finished(client: TestClient, sweep: Sweep, work: Callable[[], int]) -> str:
    """A request that has ended."""
    sweep("a/bert-stock", finish=False)
    number = client.post(ROUTE, json={"model": "a/bert-stock"}).json()["id"]
    work()
    with unit_of_work() as session:
        assert close_finished_requests(session) == [number]
    return str(number)


def test_a_stream_tells_everything_in_order_and_ends(client: TestClient, finished: str) -> None:
    answer = client.get(f"{ROUTE}/{finished}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = parsed(answer.text)
    assert [int(event["id"]) for event in told] == list(range(1, len(told) + 1))
    assert (told[0]["event"], told[-1]["event"]) == ("request.created", "request.finished")
    assert '"state": "ready"' in told[-1]["data"]
    assert {event["event"] for event in told} >= {"sweep.started", "run.finished", "sweep.finished"}


def test_a_stream_goes_on_after_what_was_seen(client: TestClient, finished: str) -> None:
    everything = parsed(client.get(f"{ROUTE}/{finished}/events").text)
    rest = parsed(client.get(f"{ROUTE}/{finished}/events", headers={"Last-Event-ID": "2"}).text)
    assert rest == everything[2:]
    over = client.get(f"{ROUTE}/{finished}/events", headers={"Last-Event-ID": everything[-1]["id"]})
    assert (over.status_code, over.text) == (204, ""), "a browser does not come back"


def test_a_sweep_has_a_stream(client: TestClient, sweep: Sweep) -> None:
    number = sweep("a/bert-stock", "a/nomic-remote")
    told = parsed(client.get(f"/api/v1/sweeps/{number}/events").text)
    assert told[0]["event"] == "sweep.started"
    assert told[-1]["event"] == "sweep.finished"
    assert sum(event["event"] == "run.finished" for event in told) == 4


@pytest.mark.parametrize("seen", ["-1", "x", "9" * 30, "1.5"])
def test_a_last_event_that_is_no_number_is_refused(client: TestClient, finished: str, seen: str) -> None:
    answer = client.get(f"{ROUTE}/{finished}/events", headers={"Last-Event-ID": seen})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_each_principal_has_so_many_streams() -> None:
    slots = events.StreamSlots(2)
    for who in ("one", "one", "two"):
        slots.take(who)
    with pytest.raises(TooManyStreams):
        slots.take("one")
    slots.release("one")
    slots.take("one")


def test_a_stream_that_ended_gives_its_slot_back(client: TestClient, finished: str) -> None:
    for _ in range(30):
        assert client.get(f"{ROUTE}/{finished}/events").status_code == 200


def test_a_quiet_stream_is_kept_alive_and_a_database_that_is_away_is_waited_for(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.database.errors import DatabaseUnavailable

    assert events.HEARTBEAT_S == 15
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(events, "POLL_S", 0.001)
    turns = iter(["away", "quiet", "over"])

    def has_ended(_session: object) -> bool:
        turn = next(turns)
        if turn == "away":
            raise DatabaseUnavailable("away")
        return turn == "over"

    async def everything() -> list[bytes]:
        return [part async for part in events._stream(Feeds(), "request:none", 0, has_ended)]

    with ThreadPoolExecutor(1) as thread:  # a browser of the same session keeps a loop running in this one
        parts: list[Any] = thread.submit(asyncio.run, everything()).result()
    assert parts == [b"retry: 2000\n\n", b": heartbeat\n\n", b": heartbeat\n\n"]
