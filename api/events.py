"""Server-Sent Events from the outbox: every API process reads the same table, so any of them can go on with a stream.

The id of an event is its number in the stream; `Last-Event-ID` says what has been seen, and what follows it is sent.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import structlog
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from sqlalchemy.orm import Session
from starlette.types import Receive, Scope, Send

from api.errors import TooManyStreams
from api.feeds import Batch, Feeds, Numbered
from api.security.identity import Caller
from pipeline.database.errors import DatabaseUnavailable
from pipeline.database.events import events_of
from pipeline.database.models import OutboxEvent
from pipeline.database.unit_of_work import reading

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15.0
POLL_S = 0.5
RETRY_MS = 2_000
"""How long a browser waits before it comes back."""
BATCH = 200
HasEnded = Callable[[Session], bool]
EVENT_SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
    "required": ["id", "event", "data"],
    "description": "One event; `data` is a JSON object with `subject`, `at`, `request` and its own fields",
}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events as they happen", "content": {MEDIA_TYPE: {"schema": EVENT_SCHEMA}}},
    204: {"description": "It has ended and everything has been seen: do not come back"},
}


class StreamSlots:
    """How many streams each principal has open in this process. Nobody in particular counts by address."""

    def __init__(self, limit: int) -> None:
        self._limit, self._open, self._lock = limit, Counter[str](), threading.Lock()

    def take(self, who: str) -> None:
        """Count one more. Raises `TooManyStreams`."""
        with self._lock:
            if self._open[who] >= self._limit:
                raise TooManyStreams(f"{self._limit} event streams are open already: close some.")
            self._open[who] += 1

    def release(self, who: str) -> None:
        """Count one less."""
        with self._lock:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


class EventResponse(StreamingResponse):
    """A stream that gives its slot back however it ends."""

    def __init__(self, content: AsyncIterator[bytes], release: Callable[[], None]) -> None:
        super().__init__(content, media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the caller goes, the subject ends, or the server stops."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


def follow(request: Request, caller: Caller, stream: str, after: int, has_ended: HasEnded) -> Response:
    """The answer of a route that streams; 204 if there is nothing more to come. Raises `TooManyStreams`."""
    first = _read(stream, after, has_ended)
    if first.ended and not first.events:
        return Response(status_code=204)
    slots: StreamSlots = request.app.state.streams
    who = _who(request, caller)
    slots.take(who)
    feeds: Feeds = request.app.state.feeds
    return EventResponse(_stream(feeds, stream, after, has_ended), lambda: slots.release(who))


def _who(request: Request, caller: Caller) -> str:
    if caller.principal_id is not None:
        return f"principal {caller.principal_id}"
    return f"address {request.client.host if request.client else '?'}"


async def _stream(feeds: Feeds, stream: str, after: int, has_ended: HasEnded) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MS}\n\n".encode()
    spoken = time.monotonic()
    read = partial(_read_or_wait, stream, has_ended)
    async with feeds.following(stream, read, after, POLL_S) as feed:
        while True:
            batch = await feed.after(after)
            if batch.events:
                yield b"".join(event.text for event in batch.events)
                after, spoken = batch.events[-1].number, time.monotonic()
            elif batch.ended:
                return
            else:
                if time.monotonic() - spoken >= HEARTBEAT_S:
                    yield b": heartbeat\n\n"
                    spoken = time.monotonic()
                await anyio.sleep(POLL_S)


def _read_or_wait(stream: str, has_ended: HasEnded, after: int) -> Batch:
    """A database that is away is waited for: nothing is lost, it is only told later."""
    try:
        return _read(stream, after, has_ended)
    except DatabaseUnavailable as problem:
        structlog.get_logger().warning("events.wait", stream=stream, detail=str(problem))
        return Batch([], False)


def _read(stream: str, after: int, has_ended: HasEnded) -> Batch:
    """The end is asked for first: what was told by then is read afterwards. A full batch is never the last."""
    with reading() as session:
        ended = has_ended(session)
        found = events_of(session, stream, after, BATCH)
        return Batch([Numbered(e.number or 0, encode(e)) for e in found], ended and len(found) < BATCH)


def encode(event: OutboxEvent) -> bytes:
    """One event as the protocol has it."""
    told = {"subject": f"{event.subject_kind}:{event.subject_id}", "at": event.created_at.isoformat()}
    data = json.dumps({**event.payload, **told, "request": event.request_id}, ensure_ascii=False)
    return f"id: {event.number}\nevent: {event.topic}\ndata: {data}\n\n".encode()
