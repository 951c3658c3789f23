"""From failure to release: one candidate per digest, a human decides on what they saw, the affected run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from pipeline.database.accounts import NotAllowed, ensure_principal, local_reviewer
from pipeline.database.artefacts import read_artefact
from pipeline.database.facts import mark_demo
from pipeline.database.models import Principal, PrincipalKind, PrincipalRole, Role
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.errors import BadInput
from pipeline.releases.errors import AlreadyWithdrawn
from pipeline.releases.models import Adapter, AdapterState
from pipeline.releases.service import bundled_manifests, sync_bundled
from pipeline.review import repository, service
from pipeline.review.errors import (
    ClaimedByOther,
    NotReviewable,
    NotTheSamePatches,
    PatchNotInSet,
    ReasonMissing,
    ScriptedOutsideDemo,
    SecondPersonNeeded,
    StaleApproval,
    UnknownCandidate,
)
from pipeline.review.history import history_is_whole
from pipeline.review.models import CandidateRow, CandidateState, EvidenceRow, ReviewRow
from pipeline.review.presentation import details_of, summary_of
from pipeline.settings import get_settings
from pipeline.sweeps.coverage import coverage
from pipeline.work.invariants import broken, violations
from pipeline.work.models import Run

PROFILE = "profile-2026-08"
Drain = Callable[[], list[int]]
Start = Callable[..., int]


@pytest.fixture
def waiting(database: str, sweep_of: Start, drain: Drain) -> int:
    """A candidate that waits for review: drafted for two checkpoints of one family; a third one passes as stock."""
    sweep_of("a/real-one", "a/two", "a/stock-three")
    drain()
    with reading() as session:
        found = repository.list_candidates(session)
        assert len(found) == 1
        return found[0].id


def act(what: Callable[[Session, Principal], Any]) -> Any:
    with unit_of_work() as session:
        return what(session, local_reviewer(session))


def approve(number: int) -> service.Released:
    def decide(session: Session, who: Principal) -> service.Released:
        seen = service.seen_digest(repository.get_candidate(session, number))
        return service.approve(session, number, who, seen=seen, reason="looks right")

    return act(decide)


def state_of(number: int) -> str:
    with reading() as session:
        return repository.get_candidate(session, number).state


def test_checkpoints_of_a_family_share_one_candidate_and_one_verification(waiting: int) -> None:
    with reading() as session:
        candidate = repository.get_candidate(session, waiting)
        assert {link.checkpoint.model.name for link in candidate.checkpoints} == {"a/real-one", "a/two"}
        assert session.query(Run).filter_by(stage="verify").count() == 1
        assert [row.tier for row in candidate.evidence] == ["full"]
        assert [patch.drafter for patch in candidate.patches] == ["rules", "rules"]


def test_an_approval_releases_and_runs_exactly_the_affected_again(waiting: int, drain: Drain) -> None:
    with reading() as session:
        before = coverage(session, PROFILE)
    released = approve(waiting)
    with reading() as session:
        names = {session.get_one(Run, run.id).checkpoint_id for run in released.runs}
        affected = {link.checkpoint_id for link in repository.get_candidate(session, waiting).checkpoints}
        assert names == affected, "the checkpoint that passes as stock is left alone"
    drain()
    with reading() as session:
        after = coverage(session, PROFILE)
        assert session.query(Run).filter_by(stage="execute").count() == 3
    assert (before["passing_real"], before["passing_synthetic"]) == (0, 1)
    assert (after["passing_real"], after["passing_synthetic"]) == (1, 2)
    assert after["supported"] == 3


def test_a_release_stores_a_manifest_with_the_drafter_of_each_patch(waiting: int) -> None:
    adapter = approve(waiting).adapter
    assert (adapter.origin, adapter.version, adapter.state) == ("service", 1, AdapterState.RELEASED)
    assert [patch["drafter"] for patch in adapter.manifest["patches"]] == ["rules", "rules"]
    assert adapter.manifest["digest"] == adapter.digest
    assert adapter.digest.encode() in read_artefact(adapter.artefact_digest or "")


def test_a_wrong_digest_is_a_stale_approval_and_changes_nothing(waiting: int) -> None:
    with pytest.raises(StaleApproval, match="look again"):
        act(lambda s, who: service.approve(s, waiting, who, seen="0" * 64, reason="x"))
    assert state_of(waiting) == CandidateState.WAITING
    with reading() as session:
        assert session.query(Adapter).count() == 0
        assert session.query(ReviewRow).count() == 0


def test_new_evidence_makes_what_was_seen_stale(waiting: int) -> None:
    with unit_of_work() as session:
        candidate = repository.get_candidate(session, waiting)
        seen = service.seen_digest(candidate)
        old = candidate.evidence[0]
        copied = ("candidate_id", "checkpoint_id", "run_id", "candidate_digest", "tier", "outcome", "complete")
        values = {name: getattr(old, name) for name in (*copied, "measurements", "evidence", "artefacts")}
        now = database_now(session)
        session.add(EvidenceRow(**values, environment="e" * 64, digest="d" * 64, created_at=now))
    with pytest.raises(StaleApproval):
        act(lambda s, who: service.approve(s, waiting, who, seen=seen, reason="x"))


def test_a_candidate_is_decided_once(waiting: int) -> None:
    approve(waiting)
    with pytest.raises(NotReviewable, match="released"):
        approve(waiting)
    with pytest.raises(NotReviewable):
        act(lambda s, who: service.reject(s, waiting, who, reason="too late"))


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_decision_needs_a_reason(waiting: int, reason: str) -> None:
    with pytest.raises(ReasonMissing):
        act(lambda s, who: service.reject(s, waiting, who, reason=reason))
    assert state_of(waiting) == CandidateState.WAITING


def test_only_a_reviewer_decides(waiting: int) -> None:
    with unit_of_work() as session:
        viewer = ensure_principal(session, "vera", PrincipalKind.HUMAN, [Role.VIEWER])
        with pytest.raises(NotAllowed, match="vera"):
            service.reject(session, waiting, viewer, reason="no")


@pytest.mark.parametrize("kind", [PrincipalKind.AGENT, PrincipalKind.SERVICE])
def test_no_agent_or_service_can_be_a_reviewer(kind: PrincipalKind, database: str) -> None:
    with unit_of_work() as session:
        bot = ensure_principal(session, "bot", kind, [Role.VIEWER])
        with pytest.raises(BadInput, match="only a human"):
            ensure_principal(session, "bot", kind, [Role.REVIEWER])
        bot_id = bot.id
    for claimed_kind in (kind, PrincipalKind.HUMAN):
        with pytest.raises(IntegrityError), unit_of_work() as session:
            session.add(PrincipalRole(principal_id=bot_id, role="reviewer", principal_kind=claimed_kind))


def test_the_database_refuses_a_review_by_an_agent(waiting: int) -> None:
    with unit_of_work() as session:
        bot = ensure_principal(session, "bot", PrincipalKind.AGENT, [Role.VIEWER])
        bot_id = bot.id
    for claimed_kind in ("agent", "human"):
        with pytest.raises(IntegrityError), unit_of_work() as session:
            session.add(review_by(session, waiting, bot_id, claimed_kind))


@pytest.mark.parametrize("statement", ["UPDATE reviews SET reason = 'other'", "DELETE FROM reviews"])
def test_the_database_refuses_to_change_the_history(waiting: int, statement: str) -> None:
    act(lambda s, who: service.reject(s, waiting, who, reason="the mask is wrong"))
    with pytest.raises(DBAPIError, match="append-only"), unit_of_work() as session:
        session.execute(text(statement))
    with reading() as session:
        assert [row.reason for row in session.query(ReviewRow)] == ["the mask is wrong"]


def review_by(session: Session, candidate_id: int, principal_id: int, kind: str) -> ReviewRow:
    values = {"candidate_digest": "d", "evidence_digest": "e", "reason": "r", "created_at": database_now(session)}
    who = {"principal_id": principal_id, "principal_kind": kind}
    return ReviewRow(candidate_id=candidate_id, decision="approve", **who, **values)


def test_a_human_with_a_role_cannot_turn_into_an_agent(database: str) -> None:
    with unit_of_work() as session:
        local_reviewer(session)
    with pytest.raises(IntegrityError), unit_of_work() as session:
        session.execute(text("UPDATE principals SET kind = 'agent'"))


def test_a_claim_keeps_others_away_until_it_runs_out(waiting: int) -> None:
    act(lambda s, who: service.claim(s, waiting, who))
    with unit_of_work() as session:
        other = ensure_principal(session, "olga", PrincipalKind.HUMAN, [Role.REVIEWER])
        with pytest.raises(ClaimedByOther):
            service.reject(session, waiting, other, reason="mine")
        repository.get_candidate(session, waiting).claim_expires_at = database_now(session)
        session.flush()
        assert service.claim(session, waiting, other).claimed_by_id == other.id


def test_a_rejected_digest_is_never_drafted_again_and_its_reason_is_handed_on(
    waiting: int, sweep_of: Start, drain: Drain
) -> None:
    act(lambda s, who: service.reject(s, waiting, who, reason="the mask is wrong"))
    with reading() as session:
        rejected = repository.get_candidate(session, waiting)
        digest, family = rejected.digest, rejected.family
        from pipeline.review.candidates import refused_digests

        assert refused_digests(session, family, PROFILE) == {digest: "the mask is wrong"}
    sweep_of("a/real-one", "a/two", "a/stock-three")
    drain()
    with reading() as session:
        rows = session.query(CandidateRow).order_by(CandidateRow.id).all()
        assert [row.state for row in rows] == [CandidateState.REJECTED, CandidateState.WAITING]
        assert rows[1].digest != digest


def test_changes_send_the_candidate_back_with_the_reason(waiting: int) -> None:
    act(lambda s, who: service.request_changes(s, waiting, who, reason="use P54"))
    with reading() as session:
        candidate = repository.get_candidate(session, waiting)
        assert (candidate.state, candidate.reason) == (CandidateState.CHANGES, "use P54")


def test_changes_begin_a_round_with_submissions_of_its_own(waiting: int, drain: Drain) -> None:
    for _ in range(4):  # more rounds than one diagnosis has submissions or drafts by itself
        with reading() as session:
            number = repository.list_candidates(session)[0].id
        act(lambda s, who, n=number: service.request_changes(s, n, who, reason="use P54"))
        drain()
    with reading() as session:
        rows = session.query(CandidateRow).order_by(CandidateRow.id).all()
        assert [row.state for row in rows] == [*["changes"] * 4, "waiting"]
        found = details_of(session, rows[-1])["previous_round"]
        assert (found["id"], found["reason"]) == (rows[-2].id, "use P54")
        assert found["removed"]
        assert found["added"]
        assert details_of(session, rows[0])["previous_round"] is None


def test_where_two_persons_have_to_approve_the_second_one_releases(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_TWO_PERSONS", "true")
    get_settings.cache_clear()
    assert approve(waiting).adapter is None
    assert state_of(waiting) == CandidateState.WAITING
    with pytest.raises(SecondPersonNeeded):
        approve(waiting)
    with unit_of_work() as session:
        other = ensure_principal(session, "second", PrincipalKind.HUMAN, [Role.REVIEWER])
        seen = service.seen_digest(repository.get_candidate(session, waiting))
        done = service.approve(session, waiting, other, seen=seen, reason="I agree")
        assert done.adapter is not None
    with reading() as session:
        assert [row.decision for row in repository.get_candidate(session, waiting).reviews] == ["approve"] * 2
        assert broken(violations(session)) == []


def test_a_first_approval_of_other_evidence_counts_for_nothing(waiting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_TWO_PERSONS", "true")
    get_settings.cache_clear()
    approve(waiting)
    with unit_of_work() as session:
        repository.get_candidate(session, waiting).evidence[0].digest = "0" * 64
    with unit_of_work() as session:
        other = ensure_principal(session, "second", PrincipalKind.HUMAN, [Role.REVIEWER])
        seen = service.seen_digest(repository.get_candidate(session, waiting))
        assert service.approve(session, waiting, other, seen=seen, reason="I agree").adapter is None


def of_another_family(session: Session, number: int, family: str) -> CandidateRow:
    """A candidate with the same patches for another family, which waits on the same evidence."""
    from dataclasses import replace

    from agents.types import candidate_from_dict
    from pipeline.review.candidates import link_checkpoint, record_candidate

    first = repository.get_candidate(session, number)
    data = replace(candidate_from_dict(first.data), family=family).to_dict()
    other = record_candidate(session, data, session.get_one(Run, first.draft_run_id))
    link_checkpoint(session, other, first.checkpoints[0].checkpoint_id)
    kept = {c.key: getattr(first.evidence[0], c.key) for c in EvidenceRow.__table__.columns if c.key != "id"}
    session.add(EvidenceRow(**{**kept, "candidate_id": other.id, "candidate_digest": other.digest}))
    other.state = CandidateState.WAITING
    session.flush()
    session.refresh(other)
    return other


def test_one_approval_covers_the_same_patches_in_several_families(waiting: int) -> None:
    with unit_of_work() as session:
        other = of_another_family(session, waiting, "another-family").id
    with unit_of_work() as session:
        first, second = (repository.get_candidate(session, n) for n in (waiting, other))
        assert [item["id"] for item in details_of(session, first)["same_patches"]] == [other]
        seen = {c.id: service.seen_digest(c) for c in (first, second)}
        done = service.approve_together(session, seen, local_reviewer(session), reason="the same mathematics")
        assert sorted(found.adapter.family for found in done if found.adapter) == sorted([first.family, second.family])
        assert session.query(ReviewRow).filter_by(decision="approve").count() == 2


def test_other_patches_are_not_covered_and_nothing_is_released(waiting: int) -> None:
    with unit_of_work() as session:
        other = of_another_family(session, waiting, "another-family")
        other.data = {**other.data, "patches": other.data["patches"][:1]}
        number = other.id
    with reading() as session:
        seen = {n: service.seen_digest(repository.get_candidate(session, n)) for n in (waiting, number)}
    with pytest.raises(NotTheSamePatches):
        act(lambda s, who: service.approve_together(s, seen, who, reason="all"))
    assert {state_of(waiting), state_of(number)} == {CandidateState.WAITING}


def test_the_withdrawal_of_a_bundled_adapter_stands_in_the_history(session: Session) -> None:
    sync_bundled(session, bundled_manifests())
    adapter = session.query(Adapter).order_by(Adapter.id).first()
    assert adapter is not None
    service.withdraw_adapter(session, adapter.id, local_reviewer(session), reason="a flaw was found")
    (row,) = session.query(ReviewRow).all()
    assert (row.adapter_id, row.candidate_id, row.candidate_digest) == (adapter.id, None, adapter.digest)
    assert list(history_is_whole(session)) == []


def test_striking_a_patch_makes_a_new_digest_and_a_new_verification(waiting: int, drain: Drain) -> None:
    smaller = act(lambda s, who: service.strike(s, waiting, who, position=1, reason="not needed")).id
    assert state_of(waiting) == CandidateState.SUPERSEDED
    assert state_of(smaller) == CandidateState.VERIFYING
    drain()
    assert state_of(smaller) == CandidateState.WAITING
    with reading() as session:
        new, old = repository.get_candidate(session, smaller), repository.get_candidate(session, waiting)
        assert [p.pattern for p in new.patches] == ["P01"]
        assert new.digest != old.digest
        assert {row.candidate_digest for row in new.evidence} == {new.digest}
    approve(smaller)


def test_striking_a_patch_that_is_not_there_is_refused(waiting: int) -> None:
    with pytest.raises(PatchNotInSet, match="1 to 2"):
        act(lambda s, who: service.strike(s, waiting, who, position=3, reason="x"))


def test_a_withdrawal_runs_what_the_adapter_served_without_it(waiting: int, drain: Drain) -> None:
    adapter = approve(waiting).adapter.id
    drain()
    done = act(lambda s, who: service.withdraw_adapter(s, adapter, who, reason="wrong on long texts"))
    assert len(done.runs) == 2
    drain()
    with reading() as session:
        found = coverage(session, PROFILE)
        assert (found["passing_real"], found["passing_synthetic"]) == (0, 1)
        assert repository.get_candidate(session, waiting).state == CandidateState.WITHDRAWN
    with pytest.raises(AlreadyWithdrawn):
        act(lambda s, who: service.withdraw_adapter(s, adapter, who, reason="again"))


def test_a_refused_candidate_is_drafted_again_and_the_second_waits(
    database: str, sweep_of: Start, drain: Drain
) -> None:
    sweep_of("a/second-one")
    drain()
    with reading() as session:
        rows = session.query(CandidateRow).order_by(CandidateRow.id).all()
        assert [(row.state, row.reason) for row in rows] == [
            (CandidateState.REFUSED, "lowest token cosine 0.4"),
            (CandidateState.WAITING, ""),
        ]


def test_a_scripted_candidate_says_so_everywhere_and_counts_in_no_figure(
    database: str, sweep_of: Start, drain: Drain
) -> None:
    sweep_of("a/scripted-one")
    drain()
    with reading() as session:
        candidate = repository.list_candidates(session)[0]
        assert summary_of(candidate)["scripted"]
        number = candidate.id
    with pytest.raises(ScriptedOutsideDemo, match="only a demonstration"):
        approve(number)
    with unit_of_work() as session:
        mark_demo(session, "test")
    released = approve(number)
    assert released.adapter.scripted
    drain()
    with reading() as session:
        run = session.query(Run).filter_by(stage="execute").one()
        assert run.outcome == "passed"
        found = coverage(session, PROFILE)
        assert [found[name] for name in ("total", "supported", "passing_real", "passing_synthetic")] == [1, 0, 0, 0]


def test_a_candidate_shows_what_would_then_pass(waiting: int) -> None:
    with reading() as session:
        shown = details_of(session, repository.get_candidate(session, waiting))
    assert {row["model"] for row in shown["would_then_pass"]} == {"a/real-one", "a/two"}
    assert shown["seen"] != shown["digest"]
    assert [patch["position"] for patch in shown["patches"]] == [1, 2]


def test_an_unknown_candidate_is_one_sentence(session: Session) -> None:
    with pytest.raises(UnknownCandidate, match="no candidate 99"):
        repository.get_candidate(session, 99)
