"""One POST to an address that somebody gave us, with nothing trusted about it.

The name is resolved once and the connection goes to the address that was looked at, so that a name which means another
machine a moment later gains nothing. Private, loopback and link-local addresses are refused unless the host is listed;
redirects are answers like any other and are not followed; proxies are not used.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from pipeline.notices.errors import AddressRefused, NotDelivered

TIMEOUT_S = 5.0
MOST_BYTES = 65_536
CHUNK = 4_096


class Target(NamedTuple):
    """Where to connect, and whom to expect there."""

    host: str
    port: int
    address: str


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    listed: Collection[str] = (),
    context: ssl.SSLContext | None = None,
) -> int:
    """Send `body` and return the status. `listed` are hosts that may be private.

    Raises `AddressRefused`; `NotDelivered` if there is no 2xx answer of at most 64 KiB within 5 seconds.
    """
    ends = time.monotonic() + TIMEOUT_S
    parts = urlsplit(url)
    target = resolve(parts, listed)
    connection = _Pinned(target, context or ssl.create_default_context())
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        _read(answer, connection, ends)
    except (OSError, http.client.HTTPException) as error:
        raise NotDelivered(f"{target.host} did not take it: {type(error).__name__}: {error}.") from error
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise NotDelivered(f"{target.host} answered {answer.status}.")
    return answer.status


def resolve(parts: SplitResult, listed: Collection[str] = ()) -> Target:
    """The address behind an https URL. Raises `AddressRefused`, `NotDelivered` for a name nobody knows."""
    host = parts.hostname or ""
    if parts.scheme != "https" or not host:
        raise AddressRefused(f"{parts.geturl()!r} is no https address.")
    port = parts.port or 443
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotDelivered(f"{host!r} has no address: {error}.") from error
    addresses = [str(entry[4][0]) for entry in found]
    if host not in listed:
        for address in addresses:
            _require_public(host, address)
    return Target(host, port, addresses[0])


def _require_public(host: str, address: str) -> None:
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None) or found
    if not (found.is_global and inner.is_global) or found.is_multicast:
        raise AddressRefused(f"{host!r} is {address}, which is not public: list it in WEBHOOK_PRIVATE_HOSTS.")


def _read(answer: http.client.HTTPResponse, connection: http.client.HTTPConnection, ends: float) -> None:
    """Read the answer within its limits: what it says is not kept."""
    seen = 0
    while chunk := answer.read1(CHUNK):
        seen += len(chunk)
        left = ends - time.monotonic()
        if seen > MOST_BYTES or left <= 0:
            raise NotDelivered("The answer is longer than 64 KiB, or took longer than 5 seconds.")
        if connection.sock is not None:
            connection.sock.settimeout(left)


class _Pinned(http.client.HTTPSConnection):
    """A connection to the address that was looked at; the certificate must be the host's."""

    def __init__(self, target: Target, context: ssl.SSLContext) -> None:
        super().__init__(target.host, target.port, timeout=TIMEOUT_S, context=context)
        self._target, self._tls = target, context

    def connect(self) -> None:
        """Connect to the address, speak TLS with the host."""
        plain = socket.create_connection((self._target.address, self._target.port), TIMEOUT_S)
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self._target.host)
        except BaseException:
            plain.close()
            raise
