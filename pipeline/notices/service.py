"""Messages: stored with what they tell, sent beside the dispatcher's turns, tried again, given up in sight."""

from __future__ import annotations

import json
import os
import smtplib
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import structlog
from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import database_now, unit_of_work
from pipeline.errors import FactoryError
from pipeline.notices import repository
from pipeline.notices.errors import AddressRefused, NotDelivered
from pipeline.notices.models import Message, MessageKind, MessageState
from pipeline.notices.sending import TIMEOUT_S, post
from pipeline.notices.signing import DELIVERY, SIGNATURE, TIMESTAMP, client_secret, signature
from pipeline.settings import Settings, get_settings

LEASE = timedelta(seconds=60)
FIRST_RETRY_S, MAX_ATTEMPTS = 30.0, 8
"""Waits of 30 s, 1 min, 2 min ... : the last attempt comes about an hour after the first."""
MAILTO = "mailto:"
BATCH = 20
"""Messages of one turn at most."""


def callback(session: Session, request: Any, topic: str, **told: Any) -> Message | None:
    """Store the message about the end of a request, if it named an address and callbacks are sent."""
    if not get_settings().webhooks or not request.callback_url:
        return None
    body = {"id": request.id, "model": request.model, "profile": request.profile, "topic": topic, **told}
    to = {"principal_id": request.principal_id, "request_id": request.id}
    return _store(session, MessageKind.CALLBACK, request.callback_url, topic, body, **to)


def notice(session: Session, topic: str, **told: Any) -> list[Message]:
    """Store a message to each address that is told when something waits for a reviewer; none by default."""
    addresses = [part.strip() for part in get_settings().notify.split(",") if part.strip()]
    return [_store(session, MessageKind.NOTICE, to, topic, {"topic": topic, **told}) for to in addresses]


def _store(
    session: Session, kind: MessageKind, address: str, topic: str, body: dict[str, Any], **whose: Any
) -> Message:
    now = database_now(session)
    message = Message(kind=kind, address=address, topic=topic, body=body, not_before=now, created_at=now, **whose)
    session.add(message)
    session.flush()
    return message


def send_due(settings: Settings, most: int = BATCH) -> int:
    """Try what is due, one after the other; returns how many attempts were made. No transaction is open meanwhile."""
    for attempt in range(most):
        with unit_of_work() as session:
            message = repository.claim_due(session, database_now(session), LEASE)
        if message is None:
            return attempt
        problem = _attempt(settings, message)
        with unit_of_work() as session:
            _settle(session, message, problem)
    return most


def _attempt(settings: Settings, message: Message) -> FactoryError | None:
    try:
        send = _mail if message.address.startswith(MAILTO) else _post
        send(settings, message)
    except FactoryError as problem:
        return problem
    return None


def _post(settings: Settings, message: Message) -> None:
    stamp, body = str(int(time.time())), json.dumps(message.body, sort_keys=True).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "spyre-factory",
        DELIVERY: str(message.id),
        TIMESTAMP: stamp,
        SIGNATURE: signature(client_secret(settings, message.principal_id), stamp, body),
    }
    post(message.address, body, headers, settings.private_webhook_hosts)


def _mail(settings: Settings, message: Message) -> None:
    """Hand the notice to the mail server of this installation."""
    mail = EmailMessage()
    mail["From"], mail["To"] = settings.smtp_from, message.address.removeprefix(MAILTO)
    mail["Subject"] = f"Spyre adapter factory: {message.topic}"
    mail.set_content("\n".join(f"{name}: {value}" for name, value in message.body.items()))
    host, _, port = settings.smtp_server.partition(":")
    try:
        with smtplib.SMTP(host, int(port or 25), timeout=TIMEOUT_S) as server:
            server.send_message(mail)
    except (OSError, ValueError, smtplib.SMTPException) as error:
        raise NotDelivered(f"The mail server did not take it: {type(error).__name__}: {error}.") from error


def _settle(session: Session, sent: Message, problem: FactoryError | None) -> None:
    row = repository.lock_attempt(session, sent.id, sent.fence)
    if row is None:
        return
    now, over = database_now(session), sent.attempts >= MAX_ATTEMPTS or isinstance(problem, AddressRefused)
    row.reason = str(problem) if problem else ""
    if problem is None or over:
        row.state = MessageState.DEAD if problem else MessageState.SENT
        row.finished_at = now
    else:
        row.not_before = now + timedelta(seconds=FIRST_RETRY_S * 2 ** (sent.attempts - 1))
    session.flush()


class Courier:
    """Sends beside a dispatcher's turns, one message at a time: a slow receiver delays nothing but messages."""

    def __init__(self, settings: Settings, send: Callable[[Settings], int] = send_due) -> None:
        self._settings, self._send = settings, send
        self._at_work: threading.Thread | None = None

    def turn(self) -> None:
        """Begin to send what is due, unless that is being done or nothing is ever sent."""
        if not (self._settings.webhooks or self._settings.notify):
            return
        if self._at_work is None or not self._at_work.is_alive():
            self._at_work = threading.Thread(target=self._work, daemon=True)
            self._at_work.start()

    def _work(self) -> None:
        try:
            self._send(self._settings)
        except FactoryError as problem:
            structlog.get_logger().warning("messages.wait", pid=os.getpid(), detail=str(problem))
