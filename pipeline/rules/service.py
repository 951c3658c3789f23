"""An accepted patch of a language model becomes a proposed rule, which waits for a human as a candidate does.

The rule is found when the patch is drafted, where torch is; here it is stored in the transaction that releases the
patch. A decision needs the reviewer's role, a reason, and the digest of what was seen. No decision is changed
afterwards. An accepted rule is used by the rules drafter from then on; the gate judges what comes of it as ever.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.database.accounts import require_role
from pipeline.database.events import emit
from pipeline.database.facts import is_demo
from pipeline.database.insert import insert_or_return
from pipeline.database.models import Principal, Role
from pipeline.database.unit_of_work import database_now
from pipeline.errors import NotFound
from pipeline.review.errors import NotReviewable, ReasonMissing, ScriptedOutsideDemo, StaleApproval
from pipeline.review.models import CandidateRow, PatchRow
from pipeline.rules import repository
from pipeline.rules.models import RuleProposal, RuleState


class UnknownRule(NotFound):
    """There is no such proposed rule."""

    code, status = "unknown_rule", 404


def propose_from(session: Session, candidate: CandidateRow) -> list[RuleProposal]:
    """The rules that the candidate's drafted patches are uses of, stored once each; none where a patch has none."""
    found = [(patch, (patch.data.get("generalised") or {}).get("rule")) for patch in candidate.patches]
    stored = [store_rule(session, candidate, patch, rule) for patch, rule in found if rule is not None]
    return [row for row in stored if row.state == RuleState.WAITING]


def store_rule(session: Session, candidate: CandidateRow, patch: PatchRow, rule: dict[str, Any]) -> RuleProposal:
    """The proposed rule in the queue; the same rule is one row, whoever drafted it."""
    values = {
        "candidate_id": candidate.id, "model": patch.model or "", "scripted": candidate.scripted, "data": rule,
        "state": RuleState.WAITING, "reason": "", "created_at": database_now(session),
    }  # fmt: skip
    found = insert_or_return(session, RuleProposal, {"digest": digest_of(rule)}, values)
    if found.created:
        emit(session, "rule.proposed", "rule", found.row.id, request_id=candidate.request_id)
    row: RuleProposal = found.row
    return row


def digest_of(rule: dict[str, Any]) -> str:
    """sha256 over a proposed rule and its tests."""
    return hashlib.sha256(canonical(rule)).hexdigest()


def decide_rule(
    session: Session, number: int, reviewer: Principal, *, accept: bool, seen: str, reason: str
) -> RuleProposal:
    """Accept or reject a proposed rule. `seen` is its digest.

    Raises `UnknownRule`, `NotAllowed`, `NotReviewable`, `StaleApproval`, `ReasonMissing`, `ScriptedOutsideDemo`.
    """
    require_role(reviewer, Role.REVIEWER)
    row = repository.lock_rule(session, number)
    if row is None:
        raise UnknownRule(f"There is no proposed rule {number}.")
    if row.state != RuleState.WAITING:
        raise NotReviewable(f"Rule {number} is {row.state}, it does not wait for a decision.")
    if seen != row.digest:
        raise StaleApproval(f"rule {number}: seen {seen[:64]!r}, stored {row.digest!r}: look again.")
    if not reason.strip():
        raise ReasonMissing("A decision needs a reason in one sentence.")
    if accept and row.scripted and not is_demo(session):
        raise ScriptedOutsideDemo(f"Rule {number} comes from the scripted endpoint: for demonstrations only.")
    row.state = RuleState.ACCEPTED if accept else RuleState.REJECTED
    row.principal_id, row.principal_kind = reviewer.id, reviewer.kind
    row.reason, row.decided_at = reason.strip(), database_now(session)
    session.flush()
    emit(session, f"rule.{row.state}", "rule", row.id, by=reviewer.name)
    return row


def rule_item(row: RuleProposal) -> dict[str, Any]:
    """A proposed rule as plain data: what it says, what its tests found, what a decision must name."""
    shown = {name: row.data[name] for name in ("name", "match", "to", "domain", "near_misses", "tests")}
    return {
        "id": row.id, "state": row.state, "candidate": row.candidate_id, "model": row.model, "scripted": row.scripted,
        **shown, "seen": row.digest, "reason": row.reason,
    }  # fmt: skip
