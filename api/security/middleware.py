"""What every request passes before any route sees it: host, origin, size; and the headers every answer carries.

Plain ASGI, so that no answer, not even an error's, goes out without the headers.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import BadHost, BodyTooLarge, CrossOrigin
from api.problems import answer, problem_of
from api.security.identity import SAFE_METHODS
from pipeline.errors import FactoryError

MAX_BODY_BYTES = 1_048_576
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
NO_STORE = "no-store"


class Guard:
    """ASGI middleware: refuses foreign hosts, cross-site writes and oversized bodies; adds the security headers."""

    def __init__(self, app: ASGIApp, allowed_hosts: str, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._app, self._limit = app, max_body_bytes
        self._hosts = frozenset(host.strip().lower() for host in allowed_hosts.split(",") if host.strip())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on; anything but HTTP passes unchanged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, guarded = Request(scope, receive), _with_headers(send)
        try:
            self._check(request)
            await self._app(scope, _limited(receive, self._limit), guarded)
        except FactoryError as error:
            await answer(request, problem_of(error, request.url.path))(scope, receive, guarded)

    def _check(self, request: Request) -> None:
        check_host(request, self._hosts)
        if request.method not in SAFE_METHODS:
            check_origin(request)
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._limit:
            raise BodyTooLarge(f"The body is larger than {self._limit} bytes.")


def check_host(request: Request, allowed: frozenset[str]) -> None:
    """Raise `BadHost` unless the request's one Host header is on the list: a page of another name cannot reach us."""
    given = request.headers.getlist("host")
    name = host_name(given[0]) if len(given) == 1 else None
    if name not in allowed:
        raise BadHost(f"This service is not {given!r}: add the name to SPYRE_FACTORY_ALLOWED_HOSTS if it should be.")


def host_name(host: str) -> str:
    """The name in a Host header, without port, in lower case; IPv6 addresses keep their brackets."""
    end = host.rfind("]") + 1
    return (host[:end] if end else host.partition(":")[0]).lower()


def check_origin(request: Request) -> None:
    """Raise `CrossOrigin` for a write that came from elsewhere, and for one with a cookie that does not say."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin", "none"):
        raise CrossOrigin(f"The request came from another site (Sec-Fetch-Site: {site}).")
    if origin is not None and not _is_ours(request, origin):
        raise CrossOrigin(f"The request came from {origin!r}, not from this service.")
    if site is None and origin is None and "cookie" in request.headers:
        raise CrossOrigin("A request with a cookie must say where it comes from (Origin or Sec-Fetch-Site).")


def _is_ours(request: Request, origin: str) -> bool:
    parts = urlsplit(origin)
    return (parts.scheme, parts.netloc.lower()) == (request.url.scheme, request.headers["host"].lower())


def _limited(receive: Receive, limit: int) -> Receive:
    """Receive at most `limit` bytes: a body without a length is counted as it comes."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(BodyTooLarge.status, f"The body is larger than {limit} bytes.")
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", NO_STORE)
        await send(message)

    return adding
