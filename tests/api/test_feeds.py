"""Followers of a stream share looks at the database, and each still gets every event once and in order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import anyio
import pytest

from api import feeds as module
from api.feeds import Batch, Feed, Feeds, Numbered


def run(what: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in a thread of its own: a browser of the same session keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, what, *arguments).result()


class Source:
    """A stream in memory that counts the looks at it."""

    def __init__(self, events: int) -> None:
        self.events = [Numbered(n, f"{n}".encode()) for n in range(1, events + 1)]
        self.looks, self.ended = 0, False

    def read(self, after: int) -> Batch:
        self.looks += 1
        left = [event for event in self.events if event.number > after]
        return Batch(left[:3], self.ended and len(left) <= 3)


class Follower(NamedTuple):
    after: int
    seen: list[int]


async def follow(feeds: Feeds, source: Source, follower: Follower) -> None:
    after = follower.after
    async with feeds.following("s", source.read, after, 0.02) as feed:
        while True:
            batch = await feed.after(after)
            follower.seen.extend(event.number for event in batch.events)
            if batch.events:
                after = batch.events[-1].number
            elif batch.ended:
                return
            await anyio.sleep(0.005)


async def all_follow(feeds: Feeds, source: Source, followers: list[Follower]) -> None:
    async with anyio.create_task_group() as group:
        for follower in followers:
            group.start_soon(follow, feeds, source, follower)
        await anyio.sleep(0.05)
        source.events += [Numbered(n, b"") for n in range(11, 16)]
        await anyio.sleep(0.05)
        source.ended = True


def test_each_follower_gets_everything_once_and_looks_are_shared() -> None:
    source, feeds = Source(10), Feeds()
    followers = [Follower(0, []) for _ in range(50)]
    run(all_follow, feeds, source, followers)
    assert all(follower.seen == list(range(1, 16)) for follower in followers)
    assert source.looks < 50, "fewer than one look per follower"
    assert len(feeds) == 0, "nobody follows any more"


def test_who_begins_elsewhere_gets_what_follows_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    source = Source(10)
    followers = [Follower(after, []) for after in (8, 0, 4, 10)]
    run(all_follow, Feeds(), source, followers)
    assert [follower.seen for follower in followers] == [list(range(f.after + 1, 16)) for f in followers]


def test_an_error_of_a_look_reaches_who_looked_and_the_next_look_is_tried() -> None:
    source = Source(2)

    def broken(after: int) -> Batch:
        if not source.looks:
            source.looks += 1
            raise OSError("away")
        return source.read(after)

    async def look() -> list[int]:
        feed = Feed(broken, 0, 0.0)
        with pytest.raises(OSError, match="away"):
            await feed.after(0)
        return [event.number for event in (await feed.after(0)).events]

    assert run(look) == [1, 2]
