"""Against shopping for a lucky draw: seeds after storing, none for drafters, few submissions, all of them stored."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.review import candidates, repository
from pipeline.review.errors import UnknownCandidate
from pipeline.review.models import CandidateState, Trajectory, TrajectoryStep
from pipeline.review.told import told
from pipeline.verification.policy import current_policy
from pipeline.work import specs
from pipeline.work.models import Run

Drain = Callable[[], list[int]]
Start = Callable[..., int]
LIMIT = current_policy().guards["final_submissions"]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The SPEC of every stage that is run, in order."""
    seen: list[dict[str, Any]] = []

    def spying(session: Session, run_id: int, settings: Any) -> specs.Job:
        job = specs.job_of(session, run_id, settings)
        seen.append(job.spec)
        return job

    monkeypatch.setattr("pipeline.work.worker.job_of", spying)
    return seen


def test_seeds_are_drawn_only_after_the_digest_is_committed(
    database: str, sweep_of: Start, drain: Drain, jobs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection, which sees committed rows only, finds the candidate at the very moment of the draw."""
    stored: list[set[str]] = []
    engine, draw = create_engine(database), secrets.randbits

    def looking(bits: int) -> int:
        with engine.connect() as connection:
            stored.append(set(connection.scalars(text("SELECT digest FROM candidates"))))
        return draw(bits)

    monkeypatch.setattr("pipeline.verification.seeds.secrets.randbits", looking)
    sweep_of("a/one")
    drain()
    engine.dispose()
    (spec,) = [job for job in jobs if job["stage"] == "verify"]
    assert len(stored) == len(spec["seeds"]["seeds"]) == current_policy().tiers["full"].draws == 2
    assert all(spec["candidate"]["digest"] in digests for digests in stored)
    assert spec["seeds"]["candidate_digest"] == spec["candidate"]["digest"]
    assert spec["seeds"]["stored_at"] <= spec["seeds"]["drawn_at"]


def test_a_candidate_that_is_not_stored_gets_no_seeds(session: Session) -> None:
    with pytest.raises(UnknownCandidate):
        candidates.hidden_seeds(session, 99, "full")


def test_a_drafter_is_told_no_seed_and_no_evidence(
    database: str, sweep_of: Start, drain: Drain, jobs: list[dict[str, Any]]
) -> None:
    sweep_of("a/second")
    drain()
    drawn = [str(seed) for job in jobs if job["stage"] == "verify" for seed in job["seeds"]["seeds"]]
    drafts = [job for job in jobs if job["stage"] == "draft"]
    assert len(drafts) == 2
    assert len(set(drawn)) == 4, "each submission has draws of its own"
    for draft in drafts:
        assert "seeds" not in draft
        assert "candidate" not in {name for name, value in draft.items() if value}
        assert not any(seed in json.dumps(draft) for seed in drawn)
    assert set(drafts[1]["rejected"].values()) == {"the gate refused it"}, "no figure of the verdict"


def test_a_diagnosis_sends_three_candidates_to_the_gate_and_stores_the_others(
    database: str, sweep_of: Start, drain: Drain, jobs: list[dict[str, Any]]
) -> None:
    sweep_of("a/many")
    drain()
    assert len([job for job in jobs if job["stage"] == "verify"]) == LIMIT == 3
    with reading() as session:
        rows = repository.list_candidates(session, None)
        assert [row.state for row in rows] == [CandidateState.WAITING] * 3 + [CandidateState.INCONCLUSIVE] * 2
        assert {row.reason for row in rows[3:]} == {"Not judged: its diagnosis has used its 3 final submissions."}
        draft = session.query(Run).filter_by(stage="draft").one()
        assert [candidates.may_submit(session, draft, row) for row in rows] == [True] * 3 + [False] * 2


def test_final_submissions_of_an_agent_are_counted_over_all_drafts_of_a_diagnosis(
    database: str, sweep_of: Start, drain: Drain, jobs: list[dict[str, Any]]
) -> None:
    sweep_of("a/second")
    drain()
    steps = [{"tool": "test_candidate", "target": "m.Act"}, *[{"tool": "submit", "target": "m.Act"}] * 2]
    with unit_of_work() as session:
        first, second = session.query(Run).filter_by(stage="draft").order_by(Run.id)
        now = database_now(session)
        session.add(Trajectory(id="t", run_id=first.id, model="scripted", created_at=now))
        session.flush()
        session.add_all(
            TrajectoryStep(trajectory_id="t", position=i, data=s, created_at=now) for i, s in enumerate(steps)
        )
        session.flush()
        assert first.parent_run_id == second.parent_run_id
        assert candidates.submissions_used(session, second) == {"m.Act": 2}


UNKNOWN = {"outcome": "unknown", "measure": "output", "case": "x", "text": "not compared"}
FAILED = {"outcome": "failed", "text": "lowest token cosine 0.5312 is below 0.99 in draw0-mixed-right-device"}


@pytest.mark.parametrize(
    ("reasons", "cosine", "expected"),
    [
        ([{**FAILED, "case": "draw0-mixed", "measure": "lowest_token_cosine"}], 0.5312, "wrong_values, error 5e-01"),
        ([{**FAILED, "case": "set", "measure": "execution"}], None, "cpu_fallback"),
        ([{**FAILED, "case": "P01", "measure": "equivalence"}], 0.9991, "wrong_values of P01, error 9e-04"),
        ([{**FAILED, "case": "x", "measure": "finite"}, UNKNOWN], None, "non_finite"),
        ([], 0.5, ""),
    ],
)  # fmt: skip
def test_a_refusal_tells_a_drafter_kind_patch_and_size_only(
    reasons: list[dict[str, Any]], cosine: float | None, expected: str
) -> None:
    said = told(reasons, cosine)
    assert said == (f"the gate refused it: {expected}" if expected else "the gate refused it")
    assert "draw0" not in said
    assert "0.5312" not in said
