"""Blind reviews show no verdict, count the first answer, and tell what reviewers let through and how they agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy.orm import Session

from pipeline.database.accounts import NotAllowed, ensure_principal
from pipeline.database.models import Principal, PrincipalKind, Role
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review import blind
from pipeline.review.errors import NotReviewable
from pipeline.review.models import BlindAnswer, CandidateRow, CandidateState

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
APPROVE, REJECT = BlindAnswer.APPROVE, BlindAnswer.REJECT


@pytest.fixture
def known(database: str, sweep_of: Callable[..., int], drain: Callable[[], list[int]]) -> dict[str, int]:
    """A known bad, a known good and an open candidate."""
    sweep_of("a/many-one")
    drain()
    with unit_of_work() as session:
        rows = session.query(CandidateRow).order_by(CandidateRow.id).all()
        states = {"bad": CandidateState.REFUSED, "good": CandidateState.RELEASED, "open": CandidateState.WAITING}
        for row, state in zip(rows, states.values(), strict=False):
            row.state = state
        for row in rows[len(states) :]:
            row.state = CandidateState.INCONCLUSIVE
        return {name: row.id for name, row in zip(states, rows, strict=False)}


def reviewer(session: Session, name: str) -> Principal:
    return ensure_principal(session, name, PrincipalKind.HUMAN, [Role.REVIEWER])


def say(name: str, number: int, said: BlindAnswer) -> None:
    with unit_of_work() as session:
        blind.answer(session, number, reviewer(session, name), said, "because")


def test_each_candidate_of_known_truth_is_shown_once_without_it(known: dict[str, int]) -> None:
    seen = []
    with unit_of_work() as session:
        ada = reviewer(session, "ada")
        while (shown := blind.next_blind(session, ada)) is not None:
            assert set(shown) == {"id", "family", "profile", "dtype", "patches"}
            assert "trajectory" not in shown["patches"][0]
            blind.answer(session, shown["id"], ada, REJECT, "no")
            seen.append(shown["id"])
    assert sorted(seen) == sorted([known["bad"], known["good"]])


def test_what_was_let_through_and_how_two_agree_is_counted(known: dict[str, int]) -> None:
    with reading() as session:
        assert blind.agreement(session)["let_through"] is None
    for name, bad, good in (("ada", REJECT, APPROVE), ("ben", APPROVE, APPROVE)):
        say(name, known["bad"], bad)
        say(name, known["good"], good)
    say("ben", known["bad"], REJECT)  # too late: the first answer counts
    with reading() as session:
        found = blind.agreement(session)
    assert (found["bad_caught"], found["bad_let_through"], found["good_kept"], found["good_refused"]) == (1, 1, 2, 0)
    assert [(row["reviewer"], row["let_through"]) for row in found["reviewers"]] == [("ada", 0.0), ("ben", 1.0)]
    assert (found["pairs"], found["agree"]) == (2, 0.5)


def test_an_open_candidate_and_who_may_not_review_are_refused(known: dict[str, int]) -> None:
    with pytest.raises(NotReviewable):
        say("ada", known["open"], APPROVE)
    with unit_of_work() as session:
        viewer = ensure_principal(session, "viewer", PrincipalKind.HUMAN, [Role.VIEWER])
        with pytest.raises(NotAllowed):
            blind.next_blind(session, viewer)
