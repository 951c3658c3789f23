"""A human's decisions on candidates. Each needs the role, a reason, and the digest of what was seen.

What is seen is the candidate's content *and* its evidence: `seen_digest` covers both, so that new evidence makes an
approval stale just as a changed patch does.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from agents.types import candidate_from_dict, canonical
from pipeline.database.accounts import require_role
from pipeline.database.events import emit
from pipeline.database.facts import is_demo
from pipeline.database.models import Principal, Role
from pipeline.database.unit_of_work import database_now
from pipeline.releases.models import Adapter
from pipeline.releases.service import release, withdraw
from pipeline.review import repository
from pipeline.review.candidates import link_checkpoint, record_candidate
from pipeline.review.errors import (
    ClaimedByOther,
    NotReviewable,
    PatchNotInSet,
    ReasonMissing,
    ScriptedOutsideDemo,
    StaleApproval,
)
from pipeline.review.history import append_review
from pipeline.review.models import CandidateRow, CandidateState, Decision, ReviewRow
from pipeline.review.together import is_second, require_same_patches
from pipeline.rules.service import propose_from
from pipeline.settings import get_settings
from pipeline.work.affected import rerun_affected, rerun_of_adapter, schedule_round, schedule_struck
from pipeline.work.models import Run

CLAIM_S = 1800.0


class Released(NamedTuple):
    """What a decision caused: the adapter, and the runs made for the checkpoints it can affect.

    No adapter after the first of two approvals.
    """

    adapter: Adapter | None
    runs: list[Run]


def evidence_digest(candidate: CandidateRow) -> str:
    """sha256 over the digests of all evidence rows of the candidate."""
    return hashlib.sha256(canonical(sorted(row.digest for row in candidate.evidence))).hexdigest()


def seen_digest(candidate: CandidateRow) -> str:
    """The digest a decision must name: over the candidate's content and its evidence."""
    return hashlib.sha256(canonical([candidate.digest, evidence_digest(candidate)])).hexdigest()


def review_queue(session: Session) -> list[CandidateRow]:
    """The candidates that wait for a human: most downloads that would then pass first, then the oldest."""
    return repository.list_candidates(session, CandidateState.WAITING)


def claim(session: Session, candidate_id: int, reviewer: Principal) -> CandidateRow:
    """Take a candidate for `CLAIM_S` seconds. Raises `ClaimedByOther`, `NotReviewable`, `NotAllowed`."""
    candidate = _reviewable(session, candidate_id, reviewer)
    candidate.claimed_by_id = reviewer.id
    candidate.claim_expires_at = database_now(session) + timedelta(seconds=CLAIM_S)
    session.flush()
    return candidate


def approve(session: Session, candidate_id: int, reviewer: Principal, *, seen: str, reason: str) -> Released:
    """Release the candidate, queue exactly the checkpoints it can affect, propose the rules it holds uses of.

    `seen` is `seen_digest` as the reviewer saw it. Where two persons have to approve, the first one only says so.
    Raises `StaleApproval` if `seen` is not what is stored now, `SecondPersonNeeded`, `ScriptedOutsideDemo`,
    `NotReviewable`, `ClaimedByOther`, `ReasonMissing`, `NotAllowed`.
    """
    candidate = _reviewable(session, candidate_id, reviewer)
    if seen != seen_digest(candidate):
        raise StaleApproval(
            f"candidate {candidate.id}: approved {seen!r}, stored {seen_digest(candidate)!r}: look again."
        )
    if candidate.scripted and not is_demo(session):
        raise ScriptedOutsideDemo(
            f"Candidate {candidate.id} was drafted by the scripted endpoint: only a demonstration may release it."
        )
    if get_settings().two_persons and not is_second(candidate, reviewer, evidence_digest(candidate)):
        _decide(session, candidate, reviewer, Decision.APPROVE, reason, CandidateState.WAITING)
        return Released(None, [])
    _decide(session, candidate, reviewer, Decision.APPROVE, reason, CandidateState.RELEASED)
    adapter = release(session, candidate)
    propose_from(session, candidate)
    return Released(adapter, rerun_affected(session, adapter))


def approve_together(session: Session, seen: dict[int, str], reviewer: Principal, *, reason: str) -> list[Released]:
    """One approval for the same patches in several families: candidate number to what was seen of it.

    Each gets its own line in the history. All or none. Raises `NotTheSamePatches`, and as `approve`.
    """
    require_same_patches([repository.lock_candidate(session, number) for number in sorted(seen)])
    return [approve(session, number, reviewer, seen=seen[number], reason=reason) for number in sorted(seen)]


def reject(session: Session, candidate_id: int, reviewer: Principal, *, reason: str) -> CandidateRow:
    """Refuse the candidate for good: its digest is never drafted again, the reason goes into the next context."""
    candidate = _reviewable(session, candidate_id, reviewer)
    return _decide(session, candidate, reviewer, Decision.REJECT, reason, CandidateState.REJECTED)


def request_changes(session: Session, candidate_id: int, reviewer: Principal, *, reason: str) -> CandidateRow:
    """Send the candidate back to its drafters with the reason: a new round of drafts, with a budget of its own."""
    candidate = _reviewable(session, candidate_id, reviewer)
    _decide(session, candidate, reviewer, Decision.CHANGES, reason, CandidateState.CHANGES)
    schedule_round(session, candidate)
    return candidate


def strike(session: Session, candidate_id: int, reviewer: Principal, *, position: int, reason: str) -> CandidateRow:
    """Take one patch (counted from 1) out of the set: a new candidate with a new digest, which is verified anew."""
    candidate = _reviewable(session, candidate_id, reviewer)
    smaller = record_candidate(session, _without(candidate, position), None, struck_from=candidate)
    for link in candidate.checkpoints:
        link_checkpoint(session, smaller, link.checkpoint_id)
    _decide(session, candidate, reviewer, Decision.STRIKE, reason, CandidateState.SUPERSEDED)
    schedule_struck(session, smaller, candidate)
    return smaller


def _without(candidate: CandidateRow, position: int) -> dict[str, Any]:
    whole = candidate_from_dict(candidate.data)
    if not 1 <= position <= len(whole.patches):
        raise PatchNotInSet(f"Candidate {candidate.id} has patches 1 to {len(whole.patches)}, not {position}.")
    kept = tuple(patch for number, patch in enumerate(whole.patches, start=1) if number != position)
    return replace(whole, patches=kept).to_dict()


def withdraw_adapter(session: Session, adapter_id: int, reviewer: Principal, *, reason: str) -> Released:
    """Take a release back; the checkpoints it served are run again without it."""
    require_role(reviewer, Role.REVIEWER)
    _require_reason(reason)
    adapter = withdraw(session, adapter_id, reason)
    if adapter.candidate_id:
        candidate = repository.lock_candidate(session, adapter.candidate_id)
        _decide(session, candidate, reviewer, Decision.WITHDRAW, reason, CandidateState.WITHDRAWN)
    else:
        _note_withdrawal(session, adapter, reviewer, reason)
    return Released(adapter, rerun_of_adapter(session, adapter))


def _note_withdrawal(session: Session, adapter: Adapter, who: Principal, reason: str) -> None:
    """The line in the history about an adapter that came with the package, which no candidate is behind."""
    evidence = hashlib.sha256(canonical(sorted(adapter.manifest.get("evidence") or ()))).hexdigest()
    row = ReviewRow(
        adapter_id=adapter.id,
        principal_id=who.id,
        principal_kind=who.kind,
        decision=Decision.WITHDRAW.value,
        candidate_digest=adapter.digest,
        evidence_digest=evidence,
        reason=reason.strip(),
        created_at=database_now(session),
    )
    append_review(session, row)
    emit(session, f"review.{Decision.WITHDRAW.value}", "adapter", adapter.id, by=who.name)


def _reviewable(session: Session, candidate_id: int, reviewer: Principal) -> CandidateRow:
    require_role(reviewer, Role.REVIEWER)
    candidate = repository.lock_candidate(session, candidate_id)
    if candidate.state != CandidateState.WAITING:
        raise NotReviewable(f"Candidate {candidate.id} is {candidate.state}, it does not wait for a decision.")
    if held_by_other(session, candidate, reviewer):
        raise ClaimedByOther(
            f"Candidate {candidate.id} is claimed by another reviewer until {candidate.claim_expires_at}."
        )
    return candidate


def held_by_other(session: Session, candidate: CandidateRow, reviewer: Principal) -> bool:
    """True if another reviewer's claim has not run out."""
    until = candidate.claim_expires_at
    return until is not None and candidate.claimed_by_id != reviewer.id and until > database_now(session)


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise ReasonMissing("A decision needs a reason in one sentence.")


def _decide(
    session: Session, candidate: CandidateRow, who: Principal, what: Decision, reason: str, state: CandidateState
) -> CandidateRow:
    _require_reason(reason)
    now = database_now(session)
    append_review(
        session,
        ReviewRow(
            candidate_id=candidate.id,
            principal_id=who.id,
            principal_kind=who.kind,
            decision=what.value,
            candidate_digest=candidate.digest,
            evidence_digest=evidence_digest(candidate),
            request_id=candidate.request_id,
            reason=reason.strip(),
            created_at=now,
        ),
    )
    candidate.state, candidate.reason, candidate.updated_at = state, reason.strip(), now
    candidate.claimed_by_id = candidate.claim_expires_at = None
    session.flush()
    session.expire(candidate, ["reviews"])
    emit(session, f"review.{what.value}", "candidate", candidate.id, request_id=candidate.request_id, by=who.name)
    return candidate
