"""A callback goes to the https address that was looked at, within its limits, and nowhere else."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pipeline.errors import FactoryError
from pipeline.notices import sending
from pipeline.notices.errors import AddressRefused, NotDelivered
from pipeline.notices.sending import post, resolve

from .receiver import receiver

LISTED = frozenset({"localhost"})


def test_a_listed_private_receiver_gets_body_and_headers(tmp_path: Path) -> None:
    with receiver(tmp_path) as there:
        assert post(f"https://localhost:{there.port}/in?a=1", b"{}", {"X-A": "b"}, LISTED, there.context) == 200
    ((path, headers, body),) = there.came
    assert (path, headers["X-A"], headers["Host"], body) == ("/in?a=1", "b", f"localhost:{there.port}", b"{}")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.9", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
     "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "2002:7f00:1::"],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))]
    found.append((socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_k: found)
    with pytest.raises(AddressRefused, match="not public"):
        resolve(urlsplit("https://mixed.example/"))


@pytest.mark.parametrize("url", ["http://example.com/", "file:///etc/passwd", "https:///x", "gopher://example.com"])
def test_only_https_is_spoken(url: str) -> None:
    with pytest.raises(AddressRefused):
        post(url, b"", {})


def test_the_name_is_resolved_once_and_that_address_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = [], socket.getaddrinfo

    def once(host: Any, *args: Any, **how: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1", *args, **how)

    with receiver(tmp_path) as there:
        monkeypatch.setattr(socket, "getaddrinfo", once)
        post(f"https://localhost:{there.port}/", b"", {}, LISTED, there.context)
    assert asked.count("localhost") == 1
    assert set(asked) <= {"localhost", "127.0.0.1"}


def test_a_certificate_of_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    with receiver(tmp_path) as there, pytest.raises(NotDelivered, match="CERTIFICATE"):
        post(f"https://localhost:{there.port}/", b"", {}, LISTED)
    assert there.came == []


@pytest.mark.parametrize("status", [302, 307, 400, 500])
def test_a_redirect_is_not_followed_and_only_2xx_counts(status: int, tmp_path: Path) -> None:
    with receiver(tmp_path, status) as there, pytest.raises(NotDelivered, match=str(status)):
        post(f"https://localhost:{there.port}/", b"", {}, LISTED, there.context)
    assert len(there.came) == 1


@pytest.mark.parametrize(("body", "pause_s"), [(b"x" * 70_000, 0.0), (b"x" * 400, 0.05)])
def test_a_long_and_a_slow_answer_are_cut_off(
    body: bytes, pause_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pause_s:
        monkeypatch.setattr(sending, "TIMEOUT_S", 1.0)
    with receiver(tmp_path, body=body, pause_s=pause_s) as there, pytest.raises(FactoryError):
        post(f"https://localhost:{there.port}/", b"", {}, LISTED, there.context)
