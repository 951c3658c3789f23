"""A stored proof is verified, never believed."""

from __future__ import annotations

from typing import Any

import pytest

from agents.drafters.rules.documents import to_document
from agents.drafters.rules.rewrite import Rewriting, rewrite
from agents.drafters.rules.table import power, product
from agents.drafters.rules.terms import Call, Input, Term, substitute
from pipeline.verification.equivalence.chain import MAX_LINES, check_chain

X = {"x": Input("x")}
STOCK: Term = Call("aten.add.Tensor", (substitute(power(3), X), substitute(power(2), X)))


@pytest.fixture(scope="module")
def rewriting() -> Rewriting:
    return rewrite(STOCK, lambda call: call.op == "aten.pow.Tensor_Scalar")


def check(rewriting: Rewriting, proof: tuple[str, ...], goal: Term | None = None) -> bool:
    document: dict[str, Any] = to_document(rewriting.term if goal is None else goal)
    return check_chain(to_document(STOCK), document, proof).holds


def test_the_chain_that_was_stored_holds(rewriting: Rewriting) -> None:
    assert len(rewriting.proof) == 2
    assert check(rewriting, rewriting.proof)


def test_the_order_of_independent_lines_does_not_matter(rewriting: Rewriting) -> None:
    assert check(rewriting, rewriting.proof[::-1])


@pytest.mark.parametrize("drop", [0, 1])
def test_a_chain_with_a_line_missing_does_not_hold(rewriting: Rewriting, drop: int) -> None:
    assert not check(rewriting, tuple(line for i, line in enumerate(rewriting.proof) if i != drop))


def test_a_line_that_claims_more_than_its_rule_does_not_hold(rewriting: Rewriting) -> None:
    forged = rewriting.proof[0].replace("mul(mul(x, x), x)", "mul(x, x)", 1)
    assert forged != rewriting.proof[0]
    answer = check_chain(to_document(STOCK), to_document(rewriting.term), (forged, rewriting.proof[1]))
    assert not answer.holds
    assert "line 1" in answer.reason


def test_a_true_chain_to_another_document_does_not_hold(rewriting: Rewriting) -> None:
    other = Call("aten.add.Tensor", (substitute(product(3), X), substitute(product(3), X)))
    assert not check(rewriting, rewriting.proof, other)


def test_a_chain_from_another_stock_module_does_not_hold(rewriting: Rewriting) -> None:
    stock = to_document(substitute(power(4), X))
    assert not check_chain(stock, to_document(rewriting.term), rewriting.proof).holds


def test_prose_is_no_proof_and_a_long_one_is_not_read(rewriting: Rewriting) -> None:
    assert not check(rewriting, ("this is obviously the same",))
    assert not check(rewriting, rewriting.proof * MAX_LINES)
