"""What reviewers find beside the queue in a generated database: proposed rules, and candidates whose truth is known.

It comes on top of `benchmarks.many_models` and is drawn alike: no figure of it is a measurement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from benchmarks.many_models import BEGAN, CANDIDATES
from pipeline.database.accounts import ensure_principal
from pipeline.database.models import Principal, PrincipalKind, Role
from pipeline.review.models import SCRIPTED, BlindAnswer, BlindReview, CandidateRow, CandidateState
from pipeline.rules.models import RuleProposal, RuleState

KNOWN = range(CANDIDATES - 11, CANDIDATES + 1)
"""Candidates of the database whose truth is known; every third is good."""
REVIEWERS = ("Annegret Hinterhuber", "reviewer-2@example.org")
MODEL = "example/drafter-8b"
"""Who drafted what did not come from a script."""
RULES: tuple[dict[str, Any], ...] = (
    {"name": "drafted_pow_1", "match": "pow(x, 3.0)", "to": "mul(x, mul(x, x))", "domain": "|x| <= 8",
     "near_misses": ["pow(x, 4.0)", "pow(x, 2.0)", "pow(y, 3.0)"],
     "tests": {"points": 20_000, "largest_difference": 0.0, "near_misses_refused": 3}},
    {"name": "drafted_gelu_2", "domain": "every finite x; above 30 both sides are x",
     "match": "mul(mul(x, 0.5), add(1.0, tanh(mul(0.7978845608028654, add(x, mul(0.044715, pow(x, 3.0)))))))",
     "to": "mul(x, sigmoid(mul(1.5957691216057308, add(x, mul(0.044715, mul(x, mul(x, x)))))))",
     "near_misses": ["mul(mul(x, 0.5), add(1.0, tanh(mul(0.79, x))))", "mul(x, tanh(x))", "mul(x, sigmoid(x))",
                     "mul(0.5, add(x, tanh(x)))", "tanh(mul(0.7978845608028654, x))"],
     "tests": {"points": 20_000, "largest_difference": 3.3e-16, "near_misses_refused": 5}},
    {"name": "drafted_clamp_3", "match": "clamp(x, 0.0)", "to": "relu(x)", "domain": "every finite x",
     "near_misses": ["clamp(x, -1.0)"],
     "tests": {"points": 20_000, "largest_difference": 0.0, "near_misses_refused": 1}},
)  # fmt: skip


def add_reviews(session: Session, reviewer: Principal) -> None:
    """Rules of which the last is decided by `reviewer`, and what the others said of candidates whose truth is known."""
    for state, wanted in ((CandidateState.RELEASED, True), (CandidateState.REFUSED, False)):
        numbers = [number for number in KNOWN if _is_good(number) is wanted]
        session.execute(update(CandidateRow).where(CandidateRow.id.in_(numbers)).values(state=state))
    session.execute(insert(RuleProposal), list(_rules(reviewer)))
    others = [ensure_principal(session, name, PrincipalKind.HUMAN, [Role.REVIEWER]) for name in REVIEWERS]
    session.execute(insert(BlindReview), [answer for other in others for answer in _answers(other)])


def _is_good(number: int) -> bool:
    return number % 3 == 0


def _rules(reviewer: Principal) -> Iterator[dict[str, Any]]:
    decided = {"state": RuleState.ACCEPTED, "principal_id": reviewer.id, "principal_kind": reviewer.kind,
               "reason": "The two are one function for every x.", "decided_at": BEGAN}  # fmt: skip
    waiting = {"state": RuleState.WAITING, "principal_id": None, "principal_kind": None, "reason": "",
               "decided_at": None}  # fmt: skip
    for number, rule in enumerate(RULES, start=1):
        scripted = number == 1
        yield {"digest": hashlib.sha256(rule["name"].encode()).hexdigest(), "candidate_id": number,
               "model": SCRIPTED if scripted else MODEL, "scripted": scripted,
               "data": {**rule, "data": {}}, "created_at": BEGAN,
               **(decided if number == len(RULES) else waiting)}  # fmt: skip


def _answers(reviewer: Principal) -> Iterator[dict[str, Any]]:
    """Right about most: the truth is told by the number."""
    for number in KNOWN:
        right = (number + reviewer.id) % 5 > 0
        answer = BlindAnswer.APPROVE if _is_good(number) is right else BlindAnswer.REJECT
        yield {"candidate_id": number, "principal_id": reviewer.id, "known_bad": not _is_good(number),
               "answer": answer, "reason": "read the patch", "created_at": BEGAN}  # fmt: skip
