"""Followers of one stream share one look at the database: fifty clients cost little more than one.

A feed keeps the newest events of its stream as they are sent. Who is further behind than that catches up by a look of
its own. Feeds exist while somebody follows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
import anyio.to_thread

KEPT = 1_000
"""Events that a feed keeps."""


class Numbered(NamedTuple):
    """An event as it is sent, with its number in the stream."""

    number: int
    text: bytes


class Batch(NamedTuple):
    """Events that follow a number, in order, and whether nothing follows them any more."""

    events: list[Numbered]
    ended: bool


Read = Callable[[int], Batch]
"""A look at the database for what follows a number."""


class Feed:
    """What is known of one stream in this process."""

    def __init__(self, read: Read, after: int, every_s: float) -> None:
        self._read, self._every_s = read, every_s
        self._base = self._last = after
        self._kept: deque[Numbered] = deque()
        self._ended, self._read_at, self._lock = False, float("-inf"), anyio.Lock()
        self.followers = 0

    async def after(self, number: int) -> Batch:
        """What follows `number`; one of the followers looks, at most once in `every_s` seconds."""
        async with self._lock:
            if time.monotonic() - self._read_at >= self._every_s:
                self._take(await anyio.to_thread.run_sync(self._read, self._last))
        if number < self._base:
            return await anyio.to_thread.run_sync(self._read, number)
        return Batch([event for event in self._kept if event.number > number], self._ended)

    def _take(self, found: Batch) -> None:
        self._read_at = time.monotonic()
        self._ended = found.ended
        self._kept.extend(found.events)
        if found.events:
            self._last = found.events[-1].number
        while len(self._kept) > KEPT:
            self._base = self._kept.popleft().number


class Feeds:
    """The feeds of this process, by stream."""

    def __init__(self) -> None:
        self._feeds: dict[str, Feed] = {}

    @asynccontextmanager
    async def following(self, stream: str, read: Read, after: int, every_s: float) -> AsyncIterator[Feed]:
        """The feed of a stream, kept while this or another follower is there."""
        feed = self._feeds.setdefault(stream, Feed(read, after, every_s))
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                self._feeds.pop(stream, None)

    def __len__(self) -> int:
        return len(self._feeds)
