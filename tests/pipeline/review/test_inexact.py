"""A candidate that is right and not exact enough: the next draft is told so, and a second one is not drafted again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import reading
from pipeline.review import candidates, repository
from pipeline.review.models import CandidateState
from pipeline.review.told import INEXACT, is_inexact
from pipeline.work import specs
from pipeline.work.models import Run

Drain = Callable[[], list[int]]
Start = Callable[..., int]
RATIO: dict[str, Any] = {"outcome": "unknown", "measure": "error_ratio", "case": "set", "text": "1.49"}


@pytest.fixture
def drafts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The SPEC of every draft, in order."""
    seen: list[dict[str, Any]] = []

    def spying(session: Session, run_id: int, settings: Any) -> specs.Job:
        job = specs.job_of(session, run_id, settings)
        seen.extend([job.spec] if job.spec["stage"] == "draft" else [])
        return job

    monkeypatch.setattr("pipeline.work.worker.job_of", spying)
    return seen


def states() -> list[str]:
    with reading() as session:
        return [row.state for row in repository.list_candidates(session, None)]


def test_the_next_draft_is_told_and_a_set_of_less_error_waits_for_review(
    database: str, sweep_of: Start, drain: Drain, drafts: list[dict[str, Any]]
) -> None:
    sweep_of("a/inexact")
    drain()
    assert states() == [CandidateState.INCONCLUSIVE, CandidateState.WAITING]
    assert [list(spec["rejected"].values()) for spec in drafts] == [[], [INEXACT]]
    with reading() as session:
        first = repository.list_candidates(session, None)[0]
        assert candidates.was_inexact(first)
        assert list(drafts[1]["rejected"]) == [first.digest]


def test_a_pass_that_one_draw_alone_would_not_give_is_drafted_again_too(
    database: str, sweep_of: Start, drain: Drain, drafts: list[dict[str, Any]]
) -> None:
    sweep_of("a/lucky")
    drain()
    assert states() == [CandidateState.WAITING, CandidateState.WAITING]
    assert [list(spec["rejected"].values()) for spec in drafts] == [[], [INEXACT]]


def test_what_never_becomes_exact_ends_after_as_many_drafts_as_any_other(
    database: str, sweep_of: Start, drain: Drain, drafts: list[dict[str, Any]]
) -> None:
    sweep_of("a/never-exact")
    drain()
    assert len(drafts) == 3
    assert set(states()) == {CandidateState.INCONCLUSIVE}
    with reading() as session:
        assert session.query(Run).filter_by(stage="verify").count() == 3


def test_only_the_size_of_the_error_makes_a_verdict_inexact() -> None:
    missing = {"outcome": "unknown", "measure": "evidence", "case": "set", "text": "no case counted"}
    assert is_inexact([RATIO])
    assert not is_inexact([])
    assert not is_inexact([RATIO, missing])
    assert not is_inexact([{**RATIO, "outcome": "failed"}])
