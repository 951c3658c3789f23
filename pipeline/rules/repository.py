"""Queries of proposed rules."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.rules.models import RuleProposal, RuleState


def list_rules(session: Session, state: RuleState | None = None) -> list[RuleProposal]:
    """The proposed rules in a state (or all), oldest first."""
    query = select(RuleProposal).order_by(RuleProposal.id)
    return list(session.scalars(query if state is None else query.where(RuleProposal.state == state)))


def find_rule(session: Session, number: int) -> RuleProposal | None:
    """The proposed rule with this number."""
    return session.get(RuleProposal, number)


def lock_rule(session: Session, number: int) -> RuleProposal | None:
    """The proposed rule with this number, locked until the transaction ends."""
    return session.scalar(select(RuleProposal).where(RuleProposal.id == number).with_for_update())


def accepted_rules(session: Session, scripted: bool) -> list[RuleProposal]:
    """The rules that were accepted; those from a script too if `scripted`."""
    query = select(RuleProposal).where(RuleProposal.state == RuleState.ACCEPTED).order_by(RuleProposal.id)
    return list(session.scalars(query if scripted else query.where(RuleProposal.scripted.is_(False))))
