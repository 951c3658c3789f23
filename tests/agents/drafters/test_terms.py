"""Terms, matching and rewriting."""

from __future__ import annotations

import pytest

from agents.drafters.rules.rewrite import rewrite
from agents.drafters.rules.table import POW, RULES, Domain, Rule, power
from agents.drafters.rules.terms import Call, Const, Fold, Hole, Input, Number, match, substitute, subterms
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


def powers(call: Call) -> bool:
    return call.op == POW


def test_a_fold_is_calculated_from_the_numbers_that_were_bound() -> None:
    bound = match(mul(mul(Hole("x"), Number("a")), Number("b")), mul(mul(X, Const(3.0)), Const(0.5)))
    assert bound is not None
    assert substitute(mul(Hole("x"), Fold("product", ("a", "b"))), bound) == mul(X, Const(1.5))
    assert match(Number("a"), X) is None


def test_rewriting_reaches_nested_powers_and_lists_every_step() -> None:
    inner = substitute(power(2), {"x": X})
    outer = substitute(power(3), {"x": inner})
    done = rewrite(outer, powers)
    square = mul(X, X)
    assert done.term in (mul(mul(square, square), square), mul(square, mul(square, square)))
    assert {step.rule.name for step in done.steps} >= {"pow_square", "pow_cube"}
    assert (done.exactness, done.bound, done.proved) == (Exactness.EXACT, None, True)


def test_nothing_is_rewritten_unless_something_must_go() -> None:
    cube = substitute(power(3), {"x": X})
    done = rewrite(cube, lambda call: False)
    assert (done.term, done.steps) == (cube, ())


def test_a_power_without_a_rule_stays() -> None:
    odd = substitute(power(2.5), {"x": X})
    assert rewrite(odd, powers).term == odd


def test_the_cheapest_form_is_found_beyond_the_first_that_fits() -> None:
    """0.5*x*(1 + tanh(z)) is rewritten whole although only the power had to go."""
    z = substitute(power(3), {"x": X})
    gelu = mul(mul(X, Const(0.5)), Call("aten.add.Tensor", (Call("aten.tanh.default", (z,)), Const(1.0))))
    done = rewrite(gelu, powers)
    ops = [part.op for part in subterms(done.term) if isinstance(part, Call)]
    assert sorted(ops) == ["aten.mul.Tensor"] * 4 + ["aten.sigmoid.default"]
    assert done.proved


def test_bounded_rules_are_used_only_where_exact_ones_lead_nowhere_and_their_bounds_add_up() -> None:
    near = Rule("near", power(3), mul(Hole("x"), Hole("x")), ANYWHERE, 0, exactness=Exactness.BOUNDED, bound=0.25)
    cubes = mul(substitute(power(3), {"x": X}), substitute(power(3), {"x": Y}))
    done = rewrite(cubes, powers, [near])
    assert (done.exactness, done.bound) == (Exactness.BOUNDED, 0.5)
    assert rewrite(cubes, powers, [near, *RULES]).exactness is Exactness.EXACT


def test_rules_that_undo_each_other_come_to_an_end() -> None:
    forth = Rule("forth", mul(Hole("a"), Hole("b")), mul(Hole("b"), Hole("a")), ANYWHERE, 0)
    assert rewrite(mul(X, Y), lambda call: True, [forth]).term == mul(X, Y)


def test_a_form_outside_the_range_is_not_taken() -> None:
    cube = substitute(power(3), {"x": X})
    assert rewrite(cube, powers, in_range=lambda term: False).term == cube


def test_without_a_chain_the_claim_is_unproved_and_not_exact_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    import agents.drafters.rules.prove

    monkeypatch.setattr(agents.drafters.rules.prove, "find_chain", lambda *_: None)
    done = rewrite(substitute(power(3), {"x": X}), powers)
    assert (done.proved, done.proof) == (False, ())


def test_rewriting_is_deterministic() -> None:
    term = Call("aten.mish.default", (Call("aten.elu.default", (X,)),))
    wanted = lambda call: call.op in ("aten.mish.default", "aten.elu.default")  # noqa: E731
    assert len({repr(rewrite(term, wanted)) for _ in range(3)}) == 1
