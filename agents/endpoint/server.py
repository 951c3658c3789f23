"""The scripted OpenAI-compatible endpoint over HTTP: /v1/models and /v1/chat/completions, on loopback by default.

It is product code: the demonstration and the tests draft with it. It calls no model and keeps no conversation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agents.endpoint.faults import Fault, FaultPlan
from agents.endpoint.replies import MODEL, completion, error, model_list
from agents.endpoint.script import Script, load_scripts, next_step

MAX_REQUEST_BYTES = 4_000_000
ENDLESS_BYTES = 64_000_000
"""Where even the endless answer ends, should nobody hang up."""


@dataclass(frozen=True)
class Running:
    """A running endpoint. `url` is what OPENAI_BASE_URL is set to."""

    server: EndpointServer

    @property
    def port(self) -> int:
        """The port it listens at."""
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        """The base URL with the version."""
        return f"http://{self.server.server_address[0]!s}:{self.port}/v1"


class EndpointServer(ThreadingHTTPServer):
    """The server with its scripts and fault plan."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], scripts: Sequence[Script], faults: FaultPlan) -> None:
        self.scripts, self.faults = tuple(scripts), faults
        self.stopping = threading.Event()
        super().__init__(address, Handler)


class Handler(BaseHTTPRequestHandler):
    """One connection. Requests are read with a size limit; faults are shown where the plan says so."""

    protocol_version = "HTTP/1.1"
    server: EndpointServer
    timeout = 30

    def do_GET(self) -> None:
        """The model list."""
        if self.path.rstrip("/") == "/v1/models":
            self._send(200, model_list())
        else:
            self._send(404, error("not_found", f"there is no {self.path[:100]!r} here"))

    def do_POST(self) -> None:
        """A chat completion."""
        request = self._read()
        if request is None:
            return
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._send(404, error("not_found", f"there is no {self.path[:100]!r} here"))
        elif (reason := why_refused(request)) is not None:
            self._send(*reason)
        else:
            self._answer(request, self.server.faults.next())

    def _answer(self, request: dict[str, Any], fault: Fault | None) -> None:
        if fault in SHOWN:
            SHOWN[fault](self)
            return
        if fault is Fault.REFUSE_TOOLS and request.get("tools"):
            self._send(400, error("unsupported_parameter", "this endpoint does not support `tools`"))
            return
        as_text = fault is Fault.NO_TOOLS or not request.get("tools")
        step = next_step(self.server.scripts, request["messages"])
        if self.server.stopping.wait(step.delay_s) or step.status != 200:
            self._send(step.status, error("scripted_failure", step.say or "a failure of the script"))
            return
        if step.body is not None:
            self._send_bytes(200, step.body.encode())
            return
        body = completion(step, request, as_text=as_text)
        CHANGES.get(fault, _unchanged)(body)
        self._send(200, body)

    def _read(self) -> dict[str, Any] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._send(413, error("too_large", f"requests have a length of at most {MAX_REQUEST_BYTES} bytes"))
            return None
        try:
            data = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            self._send(400, error("invalid_request_error", "the request is not a JSON object"))
            return None
        return data

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._send_bytes(status, json.dumps(body).encode(), headers)

    def _send_bytes(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def show_rate_limit(self) -> None:
        """Fault 429."""
        self._send(429, error("rate_limit_exceeded", "too many requests"), {"Retry-After": "0"})

    def show_server_error(self) -> None:
        """Fault 500."""
        self._send(500, error("server_error", "internal error"))

    def show_malformed_body(self) -> None:
        """A body that is no JSON."""
        self._send_bytes(200, b'{"id": "chatcmpl-broken", "choices": [{"message": ')

    def show_endless(self) -> None:
        """A body that does not end while the client listens and the server runs."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b'{"choices": [{"message": {"content": "')
        chunk = b"and on " * 1024
        for _ in range(ENDLESS_BYTES // len(chunk)):
            if self.server.stopping.is_set():
                return
            self.wfile.write(chunk)

    def handle(self) -> None:
        """Serve the connection; a client that hangs up is no error."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests hold prompts."""


def why_refused(request: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """Status and body for a request that cannot be answered; None if it can."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        return 400, error("invalid_request_error", "`messages` must be a list of objects")
    if request.get("model") != MODEL:
        return 404, error("model_not_found", f"the only model is {MODEL!r}")
    if request.get("stream"):
        return 400, error("unsupported_parameter", "this endpoint does not stream")
    return None


def _unchanged(body: dict[str, Any]) -> None:
    """No fault."""


def _malform_arguments(body: dict[str, Any]) -> None:
    message = body["choices"][0]["message"]
    for call in message.get("tool_calls", []):
        call["function"]["arguments"] = '{"code": "def forward(x'


def _drop_usage(body: dict[str, Any]) -> None:
    body.pop("usage", None)


def _truncate(body: dict[str, Any]) -> None:
    body["choices"][0]["finish_reason"] = "length"


SHOWN: dict[Fault | None, Callable[[Handler], None]] = {
    Fault.RATE_LIMIT: Handler.show_rate_limit,
    Fault.SERVER_ERROR: Handler.show_server_error,
    Fault.MALFORMED_BODY: Handler.show_malformed_body,
    Fault.ENDLESS: Handler.show_endless,
}
CHANGES: dict[Fault | None, Callable[[dict[str, Any]], None]] = {
    Fault.MALFORMED_ARGUMENTS: _malform_arguments,
    Fault.NO_USAGE: _drop_usage,
    Fault.TRUNCATED: _truncate,
}


def make_server(
    port: int = 0,
    scripts: Sequence[Script] | None = None,
    fault: Fault | None = None,
    times: int = 1,
    host: str = "127.0.0.1",
) -> EndpointServer:
    """A bound server that is not serving yet; port 0 takes a free one. Raises OSError if the port is busy."""
    return EndpointServer((host, port), load_scripts() if scripts is None else scripts, FaultPlan(fault, times))


@contextmanager
def serve(
    port: int = 0,
    scripts: Sequence[Script] | None = None,
    fault: Fault | None = None,
    times: int = 1,
    host: str = "127.0.0.1",
) -> Iterator[Running]:
    """Serve in a thread while the block runs; everything has ended when it is left."""
    server = make_server(port, scripts, fault, times, host)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield Running(server)
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()
