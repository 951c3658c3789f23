"""The HTTP side of the local Hub: listing, model information, tree, discussions and file resolution.

Follows what `huggingface_hub` sends and reads: `Link` headers for pages, `X-Repo-Commit`, `ETag`, `X-Linked-Etag`,
`X-Linked-Size`, `Range`, and `X-Error-Code` with each refusal.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from pipeline.catalogue.local_hub.api import PAGE, Answer, Refusal, Router
from pipeline.catalogue.local_hub.repository import Blob, HubModel

_CHUNK = 1 << 18
IDLE_S = 10
"""Seconds after which an idle connection is closed."""


class Fault(StrEnum):
    """Ways a Hub misbehaves."""

    GATED = "gated"
    MISSING = "missing"
    HIDDEN = "hidden"
    """401 as the Hub answers it to an anonymous question for a model that is missing or private."""
    ERROR = "error"
    """503 Service Unavailable."""
    BUSY = "busy"
    """429 Too Many Requests."""
    UNAUTHORISED = "unauthorised"
    """401: the token is not accepted."""
    SLOW = "slow"
    """Waits `delay_s` before the answer."""
    TRUNCATED = "truncated"
    """Closes the connection in the middle of a file."""
    CORRUPT = "corrupt"
    """Sends the right number of wrong bytes."""


REFUSALS: dict[Fault, Refusal] = {
    Fault.GATED: Refusal(403, "GatedRepo", "Access to this model is restricted."),
    Fault.MISSING: Refusal(404, "RepoNotFound", "Repository not found"),
    Fault.HIDDEN: Refusal(401, None, "Invalid username or password."),
    Fault.ERROR: Refusal(503, None, "Service Unavailable"),
    Fault.BUSY: Refusal(429, None, "Too Many Requests"),
    Fault.UNAUTHORISED: Refusal(401, None, "Invalid credentials in Authorization header"),
}


class Seen(NamedTuple):
    """A request that arrived: method, path with query, and the bearer token it carried."""

    method: str
    path: str
    token: str | None


@dataclass
class _Switch:
    fault: Fault
    times: int | None
    file: str | None = None


@dataclass
class LocalHub:
    """The server in a thread. Use it as a context manager; `url` is its endpoint.

    `token` is the one bearer token it accepts; gated models need it. Models may be added or replaced while it runs.
    """

    models: Iterable[HubModel] = ()
    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    page: int = PAGE
    delay_s: float = 1.0
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.router = Router({m.model_id: m for m in self.models}, self.page)
        self._switches: dict[str | None, _Switch] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """The endpoint, without a slash at the end."""
        if self._server is None:
            raise RuntimeError("the local Hub is not running")
        return f"http://{self.host}:{self._server.server_address[1]}"

    def add(self, model: HubModel) -> None:
        """Serves a model, in place of one of the same id."""
        self.router.models[model.model_id] = model

    def misbehave(
        self, fault: Fault, model_id: str | None = None, *, times: int | None = None, file: str | None = None
    ) -> None:
        """From now on (or for the next `times` requests) answers with `fault`: for everything, a model, or a file."""
        with self._lock:
            self._switches[model_id] = _Switch(fault, times, file)

    def behave(self, model_id: str | None = None) -> None:
        """Ends all misbehaviour, or that towards one model."""
        with self._lock:
            if model_id is None:
                self._switches.clear()
            self._switches.pop(model_id, None)

    def fault_for(self, model_id: str | None, file: str) -> Fault | None:
        """The fault that applies to a request; counts it. Damage to content applies to files (`file` not empty)."""
        with self._lock:
            for key in (None, model_id):
                switch = self._switches.get(key)
                if switch is None or switch.times == 0 or not _concerns(switch, file):
                    continue
                switch.times = None if switch.times is None else switch.times - 1
                return switch.fault
        return None

    def wait(self, seconds: float) -> None:
        """Waits, unless the server is stopping."""
        self._stopping.wait(seconds)

    def start(self) -> LocalHub:
        """Binds and serves in a thread. Raises OSError if the port is taken."""
        self._server = _Server((self.host, self.port), self)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True, name="local-hub").start()
        return self

    def stop(self) -> None:
        """Stops serving and closes every connection."""
        self._stopping.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> LocalHub:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


_CONTENT = frozenset({Fault.TRUNCATED, Fault.CORRUPT})


def _concerns(switch: _Switch, file: str) -> bool:
    return switch.file == file if switch.file else bool(file) or switch.fault not in _CONTENT


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, address: tuple[str, int], hub: LocalHub) -> None:
        self.hub = hub
        self.open_sockets: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_close(self) -> None:
        for connection in list(self.open_sockets):
            _hang_up(connection)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.open_sockets.add(self.connection)

    def finish(self) -> None:
        self.server.open_sockets.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Silent: requests are kept in `LocalHub.seen`."""

    def do_GET(self) -> None:
        self._serve(with_body=True)

    def do_HEAD(self) -> None:
        self._serve(with_body=False)

    def _serve(self, *, with_body: bool) -> None:
        hub, token = self.server.hub, self._bearer()
        hub.seen.append(Seen(self.command, self.path, token))
        split = urlsplit(self.path)
        route = hub.router.route(unquote(split.path))
        fault = hub.fault_for(route.model_id, route.file)
        if fault is Fault.SLOW:
            hub.wait(hub.delay_s)
        refusal = REFUSALS.get(fault) if fault else self._access(route.model_id, route.kind, token)
        answer = refusal or hub.router.answer(route, parse_qs(split.query))
        try:
            self._send(answer, with_body, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _bearer(self) -> str | None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" and token else None

    def _access(self, model_id: str | None, kind: str, token: str | None) -> Refusal | None:
        hub = self.server.hub
        if token is not None and hub.token is not None and token != hub.token:
            return REFUSALS[Fault.UNAUTHORISED]
        model = hub.router.models.get(model_id or "")
        closed = model is not None and model.gated and (token is None or token != hub.token)
        return REFUSALS[Fault.GATED] if closed and kind == "resolve" else None

    def _send(self, answer: Answer | Refusal | tuple[Blob, str], with_body: bool, fault: Fault | None) -> None:
        if isinstance(answer, Refusal):
            self._send_refusal(answer, with_body)
        elif isinstance(answer, Answer):
            self._send_json(answer, with_body)
        else:
            self._send_blob(*answer, with_body, fault)

    def _send_refusal(self, refusal: Refusal, with_body: bool) -> None:
        headers = {"X-Error-Message": refusal.message}
        if refusal.code:
            headers["X-Error-Code"] = refusal.code
        self._send_bytes(refusal.status, json.dumps({"error": refusal.message}).encode(), headers, with_body)

    def _send_json(self, answer: Answer, with_body: bool) -> None:
        headers = {"X-Repo-Commit": answer.commit} if answer.commit else {}
        if answer.next_query is not None:
            url = f"{self.server.hub.url}{urlsplit(self.path).path}?{urlencode(answer.next_query, doseq=True)}"
            headers["Link"] = f'<{url}>; rel="next"'
        self._send_bytes(200, json.dumps(answer.body).encode(), headers, with_body)

    def _send_bytes(self, status: int, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _send_blob(self, blob: Blob, commit: str, with_body: bool, fault: Fault | None) -> None:
        span = _range(self.headers.get("Range"), blob.size)
        if span is None:
            self._send_bytes(416, b"{}", {"Content-Range": f"bytes */{blob.size}"}, with_body)
            return
        begin, end = span
        self.send_response(206 if "Range" in self.headers else 200)
        for name, value in _blob_headers(blob, commit, begin, end, "Range" in self.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self._send_content(blob, begin, end, fault)

    def _send_content(self, blob: Blob, begin: int, end: int, fault: Fault | None) -> None:
        stop = begin + (end - begin) // 2 if fault is Fault.TRUNCATED else end
        for chunk in _chunks(blob.content, begin, stop):
            self.wfile.write(bytes(len(chunk)) if fault is Fault.CORRUPT else chunk)
        if fault is Fault.TRUNCATED:
            self.wfile.flush()
            self.close_connection = True
            _hang_up(self.connection)


def _blob_headers(blob: Blob, commit: str, begin: int, end: int, partial: bool) -> dict[str, str]:
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str(end - begin),
        "Accept-Ranges": "bytes",
        "ETag": f'"{blob.etag}"',
        "X-Repo-Commit": commit,
    }
    if blob.sha256:
        headers |= {"X-Linked-Etag": f'"{blob.sha256}"', "X-Linked-Size": str(blob.size)}
    if partial:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{blob.size}"
    return headers


def _range(header: str | None, size: int) -> tuple[int, int] | None:
    """The half-open byte range asked for; None if it cannot be satisfied."""
    if header is None:
        return 0, size
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first.isdigit() or int(first) >= size or (last and not last.isdigit()):
        return None
    return int(first), min(size, int(last) + 1) if last else size


def _chunks(content: Path | bytes, begin: int, end: int) -> Iterable[bytes]:
    if isinstance(content, bytes):
        yield content[begin:end]
        return
    with content.open("rb") as file:
        file.seek(begin)
        while begin < end and (chunk := file.read(min(_CHUNK, end - begin))):
            begin += len(chunk)
            yield chunk


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
