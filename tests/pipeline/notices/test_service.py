"""Messages are stored with what they tell, signed, tried again with longer and longer waits, and given up in sight."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.notices import repository, service
from pipeline.notices.errors import AddressRefused, NotDelivered
from pipeline.notices.models import Message, MessageState
from pipeline.notices.signing import DELIVERY, SIGNATURE, TIMESTAMP, client_secret, signature
from pipeline.requests.repository import get_request
from pipeline.requests.service import cancel_request, create_request
from pipeline.settings import Settings, get_settings

URL = "https://receiver.example/in"
SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
Posts = list[tuple[str, bytes, dict[str, str]]]


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Posts:
    """What is sent; nothing leaves."""
    sent: Posts = []
    monkeypatch.setattr(service, "post", lambda url, body, headers, _listed: sent.append((url, body, headers)))
    return sent


@pytest.fixture
def enabled(database: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SPYRE_FACTORY_WEBHOOKS", "true")
    get_settings.cache_clear()
    return get_settings()


def ended_request(entry: Callable[..., Any]) -> str:
    """A request with a callback, made and cancelled; its id."""
    with unit_of_work() as session:
        made = create_request(session, "a/one", "profile-2026-08", callback_url=URL, found=entry("a/one")).request.id
    with unit_of_work() as session:
        cancel_request(session, get_request(session, made))
    return made


def messages() -> list[Message]:
    with reading() as session:
        return session.query(Message).order_by(Message.id).all()


def make_due() -> None:
    with unit_of_work() as session:
        for row in session.query(Message).filter_by(state=MessageState.WAITING):
            row.not_before = database_now(session) - timedelta(seconds=1)


def test_a_callback_is_stored_with_the_end_of_its_request_and_signed(
    enabled: Settings, posts: Posts, entry: Callable[..., Any]
) -> None:
    request_id = ended_request(entry)
    assert service.send_due(enabled) == 1
    ((url, body, headers),) = posts
    assert (url, json.loads(body)["id"], json.loads(body)["state"]) == (URL, request_id, "cancelled")
    assert headers[SIGNATURE] == signature(client_secret(enabled, None), headers[TIMESTAMP], body)
    assert headers[DELIVERY] == str(messages()[0].id)
    assert [row.state for row in messages()] == ["sent"]
    assert service.send_due(enabled) == 0


@SQLITE
def test_nothing_is_stored_or_sent_unless_it_is_switched_on(
    database: str, settings: Settings, entry: Callable[..., Any]
) -> None:
    ended_request(entry)
    assert messages() == []
    service.Courier(settings, lambda _: pytest.fail("nothing is sent")).turn()


@SQLITE
def test_attempts_come_later_and_later_and_end_where_they_can_be_seen(
    enabled: Settings, entry: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise NotDelivered("it is away.")

    monkeypatch.setattr(service, "post", refuse)
    ended_request(entry)
    waits = []
    for _ in range(service.MAX_ATTEMPTS):
        assert service.send_due(enabled) == 1
        (row,) = messages()
        with reading() as session:
            waits.append(round((row.not_before - database_now(session)).total_seconds(), -1))
        make_due()
    assert waits[:4] == [30, 60, 120, 240]
    assert (row.state, row.reason, row.attempts) == ("dead", "it is away.", service.MAX_ATTEMPTS)
    with reading() as session:
        assert repository.count_dead(session) == 1
    assert service.send_due(enabled) == 0


@SQLITE
def test_an_address_that_may_not_be_reached_is_given_up_at_once(
    enabled: Settings, entry: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AddressRefused("it is private.")

    monkeypatch.setattr(service, "post", refuse)
    ended_request(entry)
    service.send_due(enabled)
    assert [(row.state, row.attempts) for row in messages()] == [("dead", 1)]


@SQLITE
def test_an_attempt_that_lost_its_lease_settles_nothing(
    enabled: Settings, posts: Posts, entry: Callable[..., Any]
) -> None:
    ended_request(entry)
    with unit_of_work() as session:
        first = repository.claim_due(session, database_now(session), service.LEASE)
    make_due()
    with unit_of_work() as session:
        second = repository.claim_due(session, database_now(session), service.LEASE)
    assert first is not None
    assert second is not None
    assert second.fence == first.fence + 1
    with unit_of_work() as session:
        service._settle(session, first, None)
    assert [row.state for row in messages()] == ["waiting"]


@SQLITE
def test_secrets_are_each_clients_own_and_not_in_the_database(enabled: Settings) -> None:
    mine, other = client_secret(enabled, 1), client_secret(enabled, 2)
    assert len({mine, other, client_secret(enabled, None)}) == 3
    assert mine == client_secret(enabled, 1)
    assert (enabled.data_dir / "keys" / "webhook-key").stat().st_mode & 0o777 == 0o600


@SQLITE
def test_a_notice_goes_by_mail_where_an_address_is_set(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    class Server:
        def __init__(self, host: str, port: int, timeout: float) -> None:
            sent.append((host, port))

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing is open."""

        def send_message(self, mail: Any) -> None:
            sent.append((mail["To"], mail["Subject"], mail.get_content()))

    monkeypatch.setattr(service.smtplib, "SMTP", Server)
    monkeypatch.setenv("SPYRE_FACTORY_NOTIFY", "mailto:reviewers@corp.example")
    monkeypatch.setenv("SPYRE_FACTORY_SMTP_SERVER", "mail.corp.example:2525")
    get_settings.cache_clear()
    with unit_of_work() as session:
        service.notice(session, "candidate.waiting", candidate=7)
    service.send_due(get_settings())
    assert sent[0] == ("mail.corp.example", 2525)
    assert sent[1][:2] == ("reviewers@corp.example", "Spyre adapter factory: candidate.waiting")
    assert "candidate: 7" in sent[1][2]
    assert [row.state for row in messages()] == ["sent"]
