"""Every query on messages to the outside."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from pipeline.notices.models import Message, MessageState


def claim_due(session: Session, now: datetime, lease: timedelta) -> Message | None:
    """The oldest message that is due, leased by pushing its next attempt back; None if there is none."""
    due = select(Message.id).where(Message.state == MessageState.WAITING, Message.not_before <= now)
    chosen = due.order_by(Message.not_before, Message.id).limit(1).with_for_update(skip_locked=True)
    statement = (
        update(Message)
        .where(Message.id == chosen.scalar_subquery(), Message.not_before <= now)
        .values(not_before=now + lease, fence=Message.fence + 1, attempts=Message.attempts + 1)
        .returning(Message.id)
        .execution_options(synchronize_session=False)
    )
    number = session.scalar(statement)
    return None if number is None else session.get_one(Message, number, populate_existing=True)


def lock_attempt(session: Session, number: int, fence: int) -> Message | None:
    """The message, if this attempt is still the newest one."""
    query = select(Message).where(Message.id == number, Message.fence == fence)
    return session.scalar(query.where(Message.state == MessageState.WAITING).with_for_update())


def messages_where(principal_id: int | None, state: str | None) -> Select[Message]:
    """The messages of a principal (None: of everybody) in a state (None: in any)."""
    query = select(Message)
    query = query if principal_id is None else query.where(Message.principal_id == principal_id)
    return query if state is None else query.where(Message.state == state)


def count_dead(session: Session) -> int:
    """Messages that were given up."""
    return session.scalar(select(func.count(Message.id)).where(Message.state == MessageState.DEAD)) or 0
