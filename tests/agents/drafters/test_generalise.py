"""An accepted document becomes a proposed rule that holds beyond the module it came from, with tests that can fail."""

from __future__ import annotations

from typing import Any

import pytest

from agents.drafters.generalise import NoRule, propose_rule
from agents.drafters.rules.terms import Call, Const, Input, match

X = {"ref": 0}


def document(*nodes: tuple[str, Any, Any]) -> dict[str, Any]:
    """Nodes of two arguments each; the last is the output."""
    written = [{"op": f"aten.{op}", "args": [a, b]} for op, a, b in nodes]
    return {"version": 1, "nodes": written, "output": {"ref": len(nodes)}}


def ref(number: int) -> dict[str, int]:
    return {"ref": number}


POWER = document(("pow.Tensor_Scalar", X, 3.0), ("mul.Tensor", ref(1), 0.044715), ("add.Tensor", X, ref(2)))
PRODUCT = document(
    ("mul.Tensor", X, 0.044715), ("mul.Tensor", ref(1), X), ("mul.Tensor", ref(2), X), ("add.Tensor", X, ref(3))
)


def test_the_rule_is_the_smallest_part_that_differs_and_free_in_the_numbers_that_may_be() -> None:
    proposal = propose_rule(POWER, PRODUCT)
    assert str(proposal.rule.match) == "mul(pow(x, 3.0), a)"
    assert str(proposal.rule.to) == "mul(mul(mul(x, a), x), x)"
    assert proposal.largest_difference <= 1e-11
    assert proposal.near_misses >= 2


def test_it_holds_for_another_module_and_not_for_its_near_misses() -> None:
    rule = propose_rule(POWER, PRODUCT).rule
    other = Call("aten.mul.Tensor", (Call("aten.pow.Tensor_Scalar", (Input("y"), Const(3.0))), Const(2.5)))
    assert match(rule.match, other) == {"x": Input("y"), "a": Const(2.5)}
    square = Call("aten.mul.Tensor", (Call("aten.pow.Tensor_Scalar", (Input("y"), Const(2.0))), Const(2.5)))
    assert match(rule.match, square) is None
    assert "mul(pow(x, 4.0), a)" in [str(term) for term in rule.near_misses]


def test_a_pair_that_is_no_equality_gives_no_rule() -> None:
    last = ("add.Tensor", X, ref(3))
    wrong = document(("mul.Tensor", X, 0.044715), ("mul.Tensor", ref(1), X), ("mul.Tensor", ref(2), ref(2)), last)
    with pytest.raises(NoRule, match="no equality"):
        propose_rule(POWER, wrong)


def test_a_constant_or_another_mask_in_its_place_gives_no_rule() -> None:
    """A drafted patch must never break what only looks at it."""
    constant = document(("mul.Tensor", X, 0.0), ("add.Tensor", X, 1.0))
    power = document(("pow.Tensor_Scalar", X, 3.0), ("add.Tensor", X, ref(1)))
    with pytest.raises(NoRule, match="constant in the place of pow"):
        propose_rule(power, constant)
    masks = [document((op, X, 0.0), ("mul.Tensor", X, ref(1))) for op in ("ge.Scalar", "gt.Scalar")]
    with pytest.raises(NoRule, match="no equality"):
        propose_rule(*masks)


def test_the_same_document_gives_no_rule() -> None:
    with pytest.raises(NoRule, match="the same"):
        propose_rule(POWER, POWER)


def test_the_proposal_is_plain_data_with_its_tests() -> None:
    told = propose_rule(POWER, PRODUCT).to_dict()
    assert told["tests"]["points"] > 1_000
    assert told["name"].startswith("drafted_mul_")
    assert told == propose_rule(POWER, PRODUCT).to_dict()
