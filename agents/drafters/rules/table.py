"""The rewrite rules, as data: what is replaced by what, where both agree, and how closely.

A row is tested as it stands (`tests/agents/drafters/test_rewrite_rules.py`): random inputs of its domain in fp64, the
counter-example outside its domain, and the near misses it must not match. Forms and bounds follow pattern P01 of the
pattern library: repeated squaring for small integer powers, `sqrt`, `rsqrt` and `reciprocal` for -1, 0.5 and -0.5.
Exponents held in tensors and scalar bases are other overloads and match nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from agents.drafters.rules.terms import Call, Const, Hole, Term
from agents.types import Exactness

POW = "aten.pow.Tensor_Scalar"


class Guard(StrEnum):
    """A condition on what a rule's holes stand for; `rewrite.GUARDS` decides it by structure."""

    FLOATING = "floating"
    """The value is a floating-point tensor and no mask: products of masks are masks, their powers are integers."""


@dataclass(frozen=True)
class Domain:
    """The inputs for which both sides agree within `max_ulp`: `low` <= x <= `high`, |x| >= `smallest` or x = 0."""

    low: float
    high: float
    smallest: float
    text: str


@dataclass(frozen=True)
class Rule:
    """One rewrite. `outside` is an input beyond the domain where the sides differ; None where there is no such input.

    The roots differ from IEEE 754's pow at one input each, which torch shows in float16; in float64, float32 and
    bfloat16 torch computes x^0.5 and x^-0.5 as roots itself. `max_ulp` bounds the relative difference in units of the
    last place, for results that are normal numbers. `near_misses` look like `match` and must not match: the replacement
    would be wrong for them.
    """

    name: str
    match: Term
    to: Term
    when: tuple[Guard, ...]
    domain: Domain
    max_ulp: int
    outside: float | None = None
    near_misses: tuple[Term, ...] = ()
    exactness: Exactness = Exactness.EXACT
    bound: float | None = field(default=None)

    def __str__(self) -> str:
        return f"{self.name}: {self.match} = {self.to} for {self.domain.text}, within {self.max_ulp} ulp"


X = Hole("x")


def power(exponent: float) -> Call:
    """The stock form: x to a scalar exponent."""
    return Call(POW, (X, Const(exponent)))


def product(exponent: int) -> Term:
    """x to a positive integer by repeated squaring: x*x*x for 3, (x*x)*(x*x) for 4."""
    if exponent == 1:
        return X
    half = product(exponent // 2)
    square = Call("aten.mul.Tensor", (half, half))
    return square if exponent % 2 == 0 else Call("aten.mul.Tensor", (square, X))


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
    return Rule(name, power(exponent), product(exponent), (Guard.FLOATING,), domain, _product_ulp(exponent), None, near)


def _one_call(op: str) -> Term:
    return Call(op, (X,))


SQUARE_ROOT = Rule(
    name="pow_half",
    match=power(0.5),
    to=_one_call("aten.sqrt.default"),
    when=(Guard.FLOATING,),
    domain=Domain(-1.7e308, 1.7e308, 2.3e-308, "every finite x (NaN on both sides below zero)"),
    max_ulp=1,
    outside=float("-inf"),
    near_misses=(power(1.5), power(-0.5)),
)
RECIPROCAL_ROOT = Rule(
    name="pow_minus_half",
    match=power(-0.5),
    to=_one_call("aten.rsqrt.default"),
    when=(Guard.FLOATING,),
    domain=Domain(-1.7e308, 1.7e308, 2.3e-308, "every finite x but minus zero (NaN on both sides below zero)"),
    max_ulp=2,
    outside=-0.0,
    near_misses=(power(0.5), power(-1.5)),
)
RECIPROCAL = Rule(
    name="pow_minus_one",
    match=power(-1),
    to=_one_call("aten.reciprocal.default"),
    when=(Guard.FLOATING,),
    domain=Domain(-4e307, 4e307, 2.3e-308, "every x whose reciprocal is a normal number"),
    max_ulp=1,
    near_misses=(power(-2), power(1)),
)

INTEGER_NAMES = {2: "pow_square", 3: "pow_cube", **{n: f"pow_{n}" for n in range(4, 9)}}
RULES: tuple[Rule, ...] = (
    *(_integer_rule(name, exponent) for exponent, name in INTEGER_NAMES.items()),
    SQUARE_ROOT,
    RECIPROCAL_ROOT,
    RECIPROCAL,
)
"""Every rewrite rule, in the order they are tried."""
