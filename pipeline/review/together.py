"""Decisions of two persons, and one decision on several candidates: the same patches drafted for other families."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy.orm import Session

from agents.types import canonical
from pipeline.database.models import Principal
from pipeline.review import repository
from pipeline.review.errors import NotTheSamePatches, SecondPersonNeeded
from pipeline.review.models import CandidateRow, CandidateState, Decision


def patches_digest(candidate: CandidateRow) -> str:
    """sha256 over what the patches do on a profile, whatever family they are for."""
    core = [[patch["pattern"], patch["parameters"]] for patch in candidate.data["patches"]]
    return hashlib.sha256(canonical([candidate.profile, candidate.dtype, core])).hexdigest()


def same_patches(session: Session, candidate: CandidateRow) -> list[CandidateRow]:
    """The other candidates that wait with exactly these patches, for other families."""
    mine = patches_digest(candidate)
    waiting = repository.list_candidates(session, CandidateState.WAITING)
    return [row for row in waiting if row.id != candidate.id and patches_digest(row) == mine]


def require_same_patches(candidates: list[CandidateRow]) -> None:
    """Raise `NotTheSamePatches` unless all hold the same patches: one look covers no more than what was looked at."""
    if len({patches_digest(candidate) for candidate in candidates}) > 1:
        numbers = ", ".join(str(candidate.id) for candidate in candidates)
        raise NotTheSamePatches(f"Candidates {numbers} do not hold the same patches: decide on each.")


def is_second(candidate: CandidateRow, reviewer: Principal, evidence: str) -> bool:
    """True if another person has approved exactly this. Raises `SecondPersonNeeded` if only this one has."""
    approved = [
        row.principal_id
        for row in candidate.reviews
        if row.decision == Decision.APPROVE.value
        and (row.candidate_digest, row.evidence_digest) == (candidate.digest, evidence)
    ]
    if reviewer.id in approved:
        raise SecondPersonNeeded(f"Candidate {candidate.id} has your approval: another person has to give the second.")
    return bool(approved)


def previous_round(session: Session, candidate: CandidateRow) -> dict[str, Any] | None:
    """The candidate that was sent back before this one was drafted from the same diagnosis, and what differs.

    `removed` and `added` are patches as `[pattern, parameters]`; None in a first round.
    """
    before = repository.sent_back_before(session, candidate)
    if before is None:
        return None
    old, new = ([[p["pattern"], p["parameters"]] for p in row.data["patches"]] for row in (before, candidate))
    return {
        "id": before.id,
        "reason": before.reason,
        "removed": [patch for patch in old if patch not in new],
        "added": [patch for patch in new if patch not in old],
    }
