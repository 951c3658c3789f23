"""A released drafted patch leaves a proposed rule; a human decides on it once, by its digest; then it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from agents.drafters.generalise import generalised
from agents.drafters.rules import RulesDrafter
from agents.drafters.rules.written import rule_from
from agents.types import Diagnosis, DraftContext, Failure, FailureKind, PatternUse
from pipeline.cli.main import build_app
from pipeline.database.accounts import NotAllowed, ensure_principal, local_reviewer
from pipeline.database.facts import mark_demo
from pipeline.database.models import Principal, PrincipalKind, Role
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review import repository as reviews
from pipeline.review import service as review
from pipeline.review.errors import NotReviewable, ReasonMissing, ScriptedOutsideDemo, StaleApproval
from pipeline.rules.models import RuleState
from pipeline.rules.repository import accepted_rules, list_rules
from pipeline.rules.service import UnknownRule, decide_rule
from pipeline.settings import get_settings
from pipeline.work.models import Run
from pipeline.work.specs import job_of

X = {"ref": 0}
NINETEENTH = {"version": 1, "nodes": [{"op": "aten.pow.Tensor_Scalar", "args": [X, 19.0]}], "output": {"ref": 1}}
SQUARES = {
    "version": 1,
    "nodes": [
        *({"op": "aten.mul.Tensor", "args": [{"ref": n}, {"ref": n}]} for n in range(4)),
        *({"op": "aten.mul.Tensor", "args": [{"ref": n}, {"ref": m}]} for n, m in ((4, 1), (5, 0))),
    ],
    "output": {"ref": 6},
}
STOCK = {"version": 1, "nodes": [{"op": "aten.pow.Tensor_Scalar", "args": [X, 3.0]}], "output": {"ref": 1}}
DRAFTED = {
    "version": 1,
    "nodes": [{"op": "aten.mul.Tensor", "args": [X, X]}, {"op": "aten.mul.Tensor", "args": [X, {"ref": 1}]}],
    "output": {"ref": 2},
}


@pytest.fixture
def candidate(database: str, sweep_of: Callable[..., int], drain: Callable[[], list[int]]) -> int:
    """A candidate that waits; its first patch is one that a model drafted, with the rule it is a use of."""
    sweep_of("a/real-one")
    drain()
    with unit_of_work() as session:
        [found] = reviews.list_candidates(session)
        patch = found.patches[0]
        patch.drafter, patch.model = "llm", "some-model"
        patch.data = {**patch.data, "generalised": generalised("x.Y", DRAFTED, STOCK)}
        found.patches[1].data = {**found.patches[1].data, "generalised": {"rule": None, "reason": "no equality"}}
        return found.id


def act(what: Callable[[Session, Principal], Any]) -> Any:
    with unit_of_work() as session:
        return what(session, local_reviewer(session))


def released(number: int) -> None:
    act(
        lambda s, who: review.approve(
            s, number, who, seen=review.seen_digest(reviews.get_candidate(s, number)), reason="right"
        )
    )


def waiting() -> tuple[int, str]:
    with reading() as session:
        [row] = list_rules(session, RuleState.WAITING)
        return row.id, row.digest


def decide(accept: bool, reason: str = "it holds", seen: str | None = None) -> None:
    number, digest = waiting()
    act(lambda s, who: decide_rule(s, number, who, accept=accept, seen=seen or digest, reason=reason))


def test_a_release_leaves_the_rule_of_its_drafted_patch_waiting(candidate: int) -> None:
    with reading() as session:
        assert list_rules(session) == [], "nothing is proposed before the patch is accepted"
    released(candidate)
    with reading() as session:
        [row] = list_rules(session)
        assert (row.state, row.model, row.candidate_id) == ("waiting", "some-model", candidate)
        assert (row.data["match"], row.data["tests"]["near_misses_refused"] > 0) == ("pow(x, 3.0)", True)


def test_only_an_accepted_rule_is_handed_to_the_next_draft(candidate: int) -> None:
    released(candidate)
    with reading() as session:
        run = session.query(Run).filter_by(stage="draft").one()
        assert job_of(session, run.id, get_settings()).spec["rules"] == []
    decide(accept=True)
    with reading() as session:
        [rule] = job_of(session, run.id, get_settings()).spec["rules"]
    assert str(rule_from(rule).match) == "pow(x, 3.0)"


def test_a_rejected_rule_is_handed_to_nobody_and_no_decision_is_taken_twice(candidate: int) -> None:
    released(candidate)
    number, digest = waiting()
    decide(accept=False)
    with reading() as session:
        assert accepted_rules(session, scripted=True) == []
    with pytest.raises(NotReviewable, match="rejected"):
        act(lambda s, who: decide_rule(s, number, who, accept=True, seen=digest, reason="after all"))


def test_a_decision_needs_role_reason_and_what_was_seen(candidate: int) -> None:
    released(candidate)
    number, digest = waiting()
    with pytest.raises(StaleApproval, match="look again"):
        decide(accept=True, seen="0" * 64)
    with pytest.raises(ReasonMissing):
        decide(accept=True, reason=" ")
    with pytest.raises(UnknownRule):
        act(lambda s, who: decide_rule(s, 999, who, accept=True, seen=digest, reason="x"))
    with unit_of_work() as session:
        viewer = ensure_principal(session, "v", PrincipalKind.HUMAN, [Role.VIEWER])
        with pytest.raises(NotAllowed):
            decide_rule(session, number, viewer, accept=True, seen=digest, reason="x")


def test_the_database_refuses_a_decision_by_anything_but_a_human(candidate: int) -> None:
    released(candidate)
    with unit_of_work() as session:
        agent = ensure_principal(session, "robot", PrincipalKind.AGENT, []).id
    change = "UPDATE rule_proposals SET state = 'accepted', principal_id = :id, principal_kind = :kind"
    for values in ({"id": agent, "kind": "agent"}, {"id": None, "kind": None}):
        with pytest.raises(IntegrityError), unit_of_work() as session:
            session.execute(text(change), values)


def test_a_rule_from_the_script_is_accepted_in_a_demonstration_only(candidate: int) -> None:
    released(candidate)
    with unit_of_work() as session:
        list_rules(session)[0].scripted = True
    with pytest.raises(ScriptedOutsideDemo):
        decide(accept=True)
    with unit_of_work() as session:
        mark_demo(session, "a test")
    decide(accept=True)
    with reading() as session:
        assert (len(accepted_rules(session, True)), accepted_rules(session, False)) == (1, [])


def test_the_commands_list_and_decide(candidate: int) -> None:
    released(candidate)
    program, (number, digest) = CliRunner(), waiting()
    assert digest in program.invoke(build_app(), ["review", "rules"]).stdout
    done = program.invoke(build_app(), ["review", "accept-rule", str(number), "--seen", digest, "--reason", "holds"])
    assert "Accepted" in done.stdout
    assert "No rule waits" in program.invoke(build_app(), ["review", "rules"]).stdout


def test_an_accepted_rule_cures_what_the_table_does_not() -> None:
    """The table knows small powers; without the accepted rule this one is left."""
    proposal = generalised("bench.power", SQUARES, NINETEENTH)
    assert proposal["rule"] is not None, proposal["reason"]
    failure = Failure(FailureKind.UNSUPPORTED_OP, "aten.pow.Tensor_Scalar", "x.py:1", "m.act", "no")
    cause = Diagnosis(failure, (PatternUse("P01", {"module_class": "bench.power"}),), {"module_class": "bench.power"})
    context = DraftContext("f", "profile-2026-08", "float16")
    capture = {"bench.power": NINETEENTH}.__getitem__
    assert list(RulesDrafter(capture).draft([cause], context)) == []
    rule = rule_from(proposal["rule"]["data"])
    [made] = RulesDrafter(capture, [rule]).draft([cause], context)
    assert rule.name in made.patches[0].proof[0]
