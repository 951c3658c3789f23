"""Blind reviews: candidates whose truth is known are shown without verdict and evidence, to learn how reviewers judge.

Known bad is what the gate refused, known good what was released. Nothing comes of an answer but the figures: how many
bad ones each reviewer let through, and how often two of them agree.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.database.accounts import require_role
from pipeline.database.insert import insert_or_return
from pipeline.database.models import Principal, Role
from pipeline.database.unit_of_work import database_now
from pipeline.review import repository
from pipeline.review.errors import NotReviewable
from pipeline.review.models import BlindAnswer, BlindReview, CandidateRow, CandidateState

KNOWN = (CandidateState.REFUSED, CandidateState.RELEASED)
NEWEST = 500
SHOWN = ("pattern", "parameters", "exactness", "bound", "proof", "cures", "drafter")
"""What is told of a patch: what it does and claims, never what was measured."""


def next_blind(session: Session, reviewer: Principal) -> dict[str, Any] | None:
    """A candidate that this reviewer has not answered, as it is shown; None if there is none. Raises `NotAllowed`."""
    require_role(reviewer, Role.REVIEWER)
    answered = select(BlindReview.candidate_id).where(BlindReview.principal_id == reviewer.id)
    query = select(CandidateRow).where(CandidateRow.state.in_(KNOWN), CandidateRow.id.not_in(answered))
    found = list(session.scalars(query.order_by(CandidateRow.id.desc()).limit(NEWEST)))
    chosen = min(found, key=lambda row: _place(reviewer, row), default=None)
    return None if chosen is None else _shown(chosen)


def _place(reviewer: Principal, candidate: CandidateRow) -> str:
    """A mixed order that differs from reviewer to reviewer and is the same at every look."""
    return hashlib.sha256(f"{reviewer.id} {candidate.digest}".encode()).hexdigest()


def _shown(candidate: CandidateRow) -> dict[str, Any]:
    patches = [{name: patch.get(name) for name in SHOWN} for patch in candidate.data["patches"]]
    named = {name: getattr(candidate, name) for name in ("id", "family", "profile", "dtype")}
    return {**named, "patches": patches}


def answer(session: Session, candidate_id: int, reviewer: Principal, said: BlindAnswer, reason: str) -> BlindReview:
    """Store what a reviewer would decide; the first answer counts. Raises `NotReviewable`, `NotAllowed`."""
    require_role(reviewer, Role.REVIEWER)
    candidate = repository.get_candidate(session, candidate_id)
    if candidate.state not in KNOWN:
        raise NotReviewable(f"Candidate {candidate_id} is {candidate.state}: its truth is not known.")
    key = {"candidate_id": candidate_id, "principal_id": reviewer.id}
    truth = {"known_bad": candidate.state == CandidateState.REFUSED}
    told = {"answer": said.value, "reason": reason.strip(), "created_at": database_now(session)}
    row: BlindReview = insert_or_return(session, BlindReview, key, {**truth, **told}).row
    return row


def answer_of(session: Session, candidate_id: int, reviewer: Principal) -> BlindReview | None:
    """What this reviewer said of a candidate; None if nothing yet: its truth is not told before."""
    mine = select(BlindReview).where(BlindReview.principal_id == reviewer.id)
    return session.scalar(mine.where(BlindReview.candidate_id == candidate_id))


def agreement(session: Session) -> dict[str, Any]:
    """Per reviewer what they caught and let through; `agree` is the share of equal answers of two on one candidate.

    Shares are None where nothing was answered: that is no share of 0.
    """
    query = select(BlindReview, Principal.name).join(Principal, Principal.id == BlindReview.principal_id)
    rows = [(row, name) for row, name in session.execute(query.order_by(BlindReview.id))]
    by_reviewer: dict[str, list[BlindReview]] = defaultdict(list)
    by_candidate: dict[int, list[str]] = defaultdict(list)
    for row, name in rows:
        by_reviewer[name].append(row)
        by_candidate[row.candidate_id].append(row.answer)
    pairs = [a == b for answers in by_candidate.values() for a, b in combinations(answers, 2)]
    return {
        "reviewers": [{"reviewer": name, **_figures(found)} for name, found in sorted(by_reviewer.items())],
        **_figures([row for row, _ in rows]),
        "pairs": len(pairs),
        "agree": sum(pairs) / len(pairs) if pairs else None,
    }


def _figures(rows: Iterable[BlindReview]) -> dict[str, Any]:
    counts = Counter((row.known_bad, row.answer) for row in rows)
    caught, missed = counts[True, BlindAnswer.REJECT], counts[True, BlindAnswer.APPROVE]
    kept, refused = counts[False, BlindAnswer.APPROVE], counts[False, BlindAnswer.REJECT]
    return {
        "bad_caught": caught,
        "bad_let_through": missed,
        "good_kept": kept,
        "good_refused": refused,
        "let_through": missed / (caught + missed) if caught + missed else None,
    }
