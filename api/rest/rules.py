"""/rules: what accepted patches of language models are uses of, and a human's decisions on them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.errors import PreconditionFailed
from api.rest import PREFIX
from api.rest.reviews import IfMatch, Number, seen_in
from api.rest.schemas import DecisionBody, ReviewsQuery
from api.security.identity import Caller, Decider, Reader, principal_of
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review.errors import StaleApproval
from pipeline.rules.models import RuleState
from pipeline.rules.repository import list_rules
from pipeline.rules.service import decide_rule, rule_item

router = APIRouter(prefix=PREFIX, tags=["rules"])


class RuleTests(BaseModel):
    """What the tests of a proposed rule found, in fp64."""

    points: int
    largest_difference: float
    near_misses_refused: int


class ProposedRule(BaseModel):
    """A rule: what it matches, what it becomes, where both were tried. A decision names `seen` by If-Match."""

    id: int
    state: str
    candidate: int
    model: str
    scripted: bool
    name: str
    match: str
    to: str
    domain: str
    near_misses: list[str]
    tests: RuleTests
    seen: str
    reason: str


class ProposedRules(BaseModel):
    """Proposed rules, oldest first."""

    rules: list[ProposedRule]


@router.get("/rules", response_model=ProposedRules)
def get_rules(_caller: Reader, query: Annotated[ReviewsQuery, Query()]) -> dict[str, Any]:
    """The proposed rules that wait for a human (or all)."""
    state = RuleState.WAITING if query.state == "waiting" else None
    with reading() as session:
        return {"rules": [rule_item(row) for row in list_rules(session, state)]}


@router.post("/rules/{number}/accept", response_model=ProposedRule)
def accept(caller: Decider, number: Number, body: DecisionBody, if_match: IfMatch = None) -> dict[str, Any]:
    """Let the rules drafter use the rule that If-Match names from now on."""
    return _decide(caller, number, body, if_match, accept=True)


@router.post("/rules/{number}/reject", response_model=ProposedRule)
def reject(caller: Decider, number: Number, body: DecisionBody, if_match: IfMatch = None) -> dict[str, Any]:
    """Refuse the rule that If-Match names for good."""
    return _decide(caller, number, body, if_match, accept=False)


def _decide(caller: Caller, number: int, body: DecisionBody, if_match: str | None, *, accept: bool) -> dict[str, Any]:
    seen = seen_in(if_match)
    try:
        with unit_of_work() as session:
            who = principal_of(session, caller)
            return rule_item(decide_rule(session, number, who, accept=accept, seen=seen, reason=body.reason))
    except StaleApproval as error:
        raise PreconditionFailed(str(error)) from error
