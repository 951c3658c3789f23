"""Terms, matching and rewriting."""

from __future__ import annotations

import pytest

from agents.drafters.rules.rewrite import MAX_STEPS, rewrite
from agents.drafters.rules.table import RULES, Domain, Rule, power
from agents.drafters.rules.terms import Call, Const, Hole, Input, match, substitute, subterms
from agents.types import Exactness

X, Y = Input("x"), Input("y")
ANYWHERE = Domain(-1.0, 1.0, 0.0, "every x")


def mul(left: object, right: object) -> Call:
    return Call("aten.mul.Tensor", (left, right))  # type: ignore[arg-type]


def test_one_hole_stands_for_one_term() -> None:
    square = mul(Hole("a"), Hole("a"))
    assert match(square, mul(X, X)) == {"a": X}
    assert match(square, mul(X, Y)) is None


def test_a_hole_is_no_constant_and_keywords_must_agree() -> None:
    assert match(mul(Hole("a"), Hole("b")), mul(X, Const(2.0))) is None
    with_alpha = Call("aten.add.Tensor", (X, Y), (("alpha", 2),))
    assert match(Call("aten.add.Tensor", (Hole("a"), Hole("b"))), with_alpha) is None


def test_integer_and_float_exponents_are_the_same_constant() -> None:
    assert match(power(3), substitute(power(3.0), {"x": X})) == {"x": X}


def test_an_argument_too_many_does_not_match() -> None:
    assert match(Call("aten.tanh.default", (Hole("a"),)), Call("aten.tanh.default", (X, X))) is None
    assert match(Const(1), Const(2)) is None


def test_subterms_come_once_and_parts_first() -> None:
    square = mul(X, X)
    assert list(subterms(mul(square, square))) == [X, square, mul(square, square)]


def test_rewriting_reaches_nested_powers_and_lists_every_step() -> None:
    inner = substitute(power(2), {"x": X})
    outer = substitute(power(3), {"x": inner})
    done = rewrite(outer, lambda call: call.op == "aten.pow.Tensor_Scalar")
    square = mul(X, X)
    assert done.term == mul(mul(square, square), square)
    assert [step.rule.name for step in done.steps] == ["pow_square", "pow_cube"]
    assert done.proof[0].startswith("pow(x, 2) -> mul(x, x) by pow_square")
    assert (done.exactness, done.bound) == (Exactness.EXACT, None)


def test_only_wanted_calls_are_rewritten() -> None:
    cube = substitute(power(3), {"x": X})
    done = rewrite(cube, lambda call: False)
    assert (done.term, done.steps) == (cube, ())


def test_a_power_without_a_rule_stays() -> None:
    odd = substitute(power(2.5), {"x": X})
    assert rewrite(odd, lambda call: True).term == odd


def test_bounded_steps_make_the_whole_bounded_with_the_sum_of_bounds() -> None:
    rule = Rule("near", power(3), mul(Hole("x"), Hole("x")), (), ANYWHERE, 0, None, (), Exactness.BOUNDED, 0.25)
    cubes = mul(substitute(power(3), {"x": X}), substitute(power(3), {"x": Y}))
    done = rewrite(cubes, lambda call: True, [rule])
    assert (done.exactness, done.bound) == (Exactness.BOUNDED, 0.5)


def test_rules_that_undo_each_other_are_an_error_and_not_a_hang() -> None:
    forth = Rule("forth", mul(Hole("a"), Hole("b")), mul(Hole("b"), Hole("a")), (), ANYWHERE, 0)
    with pytest.raises(RuntimeError, match=f"did not end after {MAX_STEPS} steps"):
        rewrite(mul(X, Y), lambda call: True, [forth])


def test_the_table_rewrites_its_own_left_sides() -> None:
    for rule in RULES:
        term = substitute(rule.match, {"x": X})
        assert rewrite(term, lambda call: True).term == substitute(rule.to, {"x": X})
