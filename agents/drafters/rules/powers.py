"""Rules of pattern P01: powers become products and roots, by repeated squaring."""

from __future__ import annotations

from agents.drafters.rules.rule import ANY, Domain, Rule, X, mul, op
from agents.drafters.rules.terms import Call, Const, Fold, Number, Term
from agents.types import Exactness

POW = "aten.pow.Tensor_Scalar"


def power(exponent: float) -> Call:
    """The stock form: x to a scalar exponent."""
    return Call(POW, (X, Const(exponent)))


def product(exponent: int) -> Term:
    """x to a positive integer by repeated squaring: x*x*x for 3, (x*x)*(x*x) for 4."""
    if exponent == 1:
        return X
    half = product(exponent // 2)
    square = mul(half, half)
    return square if exponent % 2 == 0 else mul(square, X)


def _product_ulp(exponent: int) -> int:
    """Squaring doubles the relative error and each product adds half an ulp: (n - 1) / 2 in all, and the power's own 1.

    The square itself is bit-exact, since both forms round x*x once.
    """
    return 0 if exponent == 2 else 1 + exponent // 2


def _integer_rule(name: str, exponent: int) -> Rule:
    largest = 1.7e308 ** (1 / exponent)
    smallest = 2.3e-308 ** (1 / exponent)
    domain = Domain(-largest, largest, smallest, "every x whose power is a normal number")
    near = (power(exponent + 0.5), power(-exponent), Call("aten.pow.Tensor_Tensor", (X, X)))
    return Rule(name, power(exponent), product(exponent), domain, _product_ulp(exponent), None, near)


SQUARE_ROOT = Rule(
    name="pow_half",
    match=power(0.5),
    to=op("sqrt", X),
    domain=Domain(-1.7e308, 1.7e308, 2.3e-308, "every finite x (NaN on both sides below zero)"),
    max_ulp=1,
    outside=float("-inf"),
    near_misses=(power(1.5), power(-0.5)),
)
RECIPROCAL_ROOT = Rule(
    name="pow_minus_half",
    match=power(-0.5),
    to=op("rsqrt", X),
    domain=Domain(-1.7e308, 1.7e308, 2.3e-308, "every finite x but minus zero (NaN on both sides below zero)"),
    max_ulp=2,
    outside=-0.0,
    near_misses=(power(0.5), power(-1.5)),
)
RECIPROCAL = Rule(
    name="pow_minus_one",
    match=power(-1),
    to=op("reciprocal", X),
    domain=Domain(-4e307, 4e307, 2.3e-308, "every x whose reciprocal is a normal number"),
    max_ulp=1,
    near_misses=(power(-2), power(1)),
)
THREE_HALVES = Rule(
    name="pow_three_halves",
    match=power(1.5),
    to=mul(X, op("sqrt", X)),
    domain=Domain(-1e200, 1e200, 1e-200, "every x whose power is a normal number (NaN on both sides below zero)"),
    max_ulp=3,
    near_misses=(power(2.5), power(-1.5)),
)


def _negative_rule(exponent: int) -> Rule:
    domain = Domain(-(1e300 ** (1 / exponent)), 1e300 ** (1 / exponent), 1e-300 ** (1 / exponent), "normal results")
    name, near = f"pow_minus_{exponent}", (power(exponent), power(-exponent - 0.5))
    return Rule(name, power(-exponent), op("reciprocal", product(exponent)), domain, 3 + exponent, None, near)


SCALAR_BASE = Rule(
    "scalar_base",
    op("pow.Scalar", Number("c"), X),
    op("exp", mul(X, Fold("log", ("c",)))),
    Domain(-30.0, 30.0, 1e-9, "every x and base above 0"),
    exactness=Exactness.BOUNDED,
    bound=1e-12,
    positive=("c",),
    samples=(("c", 2.0), ("c", 0.5), ("c", 10.0)),
)

INTEGER_NAMES = {2: "pow_square", 3: "pow_cube", **{n: f"pow_{n}" for n in range(4, 9)}}
POWERS: tuple[Rule, ...] = (
    *(_integer_rule(name, exponent) for exponent, name in INTEGER_NAMES.items()),
    SQUARE_ROOT,
    RECIPROCAL_ROOT,
    RECIPROCAL,
    THREE_HALVES,
    *(_negative_rule(n) for n in (2, 3, 4)),
    Rule("square", op("square", X), mul(X, X), ANY, 0),
    SCALAR_BASE,
)
"""Exponents held in tensors are other overloads and match nothing here."""
