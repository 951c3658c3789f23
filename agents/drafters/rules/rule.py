"""What a rewrite rule is: data, with the domain on which both sides agree and how closely."""

from __future__ import annotations

from dataclasses import dataclass

from agents.drafters.rules.terms import Call, Const, Fold, Hole, Input, Number, Scalar, Term
from agents.types import Exactness

LARGEST = 8.5e9
"""What the device's 16-bit floats reach (facts 1.6)."""


@dataclass(frozen=True)
class Domain:
    """The inputs for which both sides agree within `max_ulp`: `low` <= x <= `high`, |x| >= `smallest` or x = 0."""

    low: float
    high: float
    smallest: float
    text: str


ANY = Domain(-LARGEST, LARGEST, 1e-9, "every x the device holds")


@dataclass(frozen=True)
class Rule:
    """One rewrite, equal in real arithmetic over `domain` unless `exactness` says otherwise.

    `max_ulp` bounds the difference in fp64 units of the last place of max(|y|, `scale`): a `scale` of 1 is for forms
    that cancel where y is small. A bounded rule differs by at most `bound` in the same measure. `outside` is an input
    beyond the domain where the sides differ; None where there is no such input. `near_misses` look like `match` and
    must not match: the replacement would be wrong for them. `nonzero` names numbers that must not be 0, `positive`
    those that must be above it, `least` what others must reach, `most` what they may not exceed; `samples` gives
    numbers to test with. `holds_back` names the shorter rule whose place this one takes where its values would leave
    the device's range.

    Rules for whole rows are measured in units of the row's largest |y|. `shapes` are those of holes that are no square
    matrix; `full_mask_outside` says that the sides differ for a row that may see nothing.

    The roots differ from IEEE 754's pow at one input each, which torch shows in float16; in float64, float32 and
    bfloat16 torch computes x^0.5 and x^-0.5 as roots itself.
    """

    name: str
    match: Term
    to: Term
    domain: Domain = ANY
    max_ulp: int = 4
    outside: float | None = None
    near_misses: tuple[Term, ...] = ()
    exactness: Exactness = Exactness.EXACT
    bound: float | None = None
    scale: float = 0.0
    nonzero: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    least: tuple[tuple[str, float], ...] = ()
    most: tuple[tuple[str, float], ...] = ()
    samples: tuple[tuple[str, Scalar], ...] = ()
    holds_back: str = ""
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    full_mask_outside: bool = False

    def __str__(self) -> str:
        within = f"within {self.max_ulp} ulp" if self.bound is None else f"within {self.bound:g}"
        return f"{self.name}: {self.match} = {self.to} for {self.domain.text}, {within}"


X, Y, Z = Hole("x"), Hole("y"), Hole("z")
A, B, C = Number("a"), Number("b"), Number("c")


def as_term(value: Term | Scalar) -> Term:
    """A scalar as a constant."""
    return value if isinstance(value, Input | Const | Hole | Number | Fold | Call) else Const(value)


def op(name: str, *args: Term | Scalar, **kwargs: Scalar) -> Call:
    """A call of `aten.NAME`; `tanh` stands for `tanh.default`, scalars become constants."""
    full = f"aten.{name}" if "." in name else f"aten.{name}.default"
    return Call(full, tuple(as_term(a) for a in args), tuple(sorted(kwargs.items())))


def mul(left: Term | Scalar, right: Term | Scalar) -> Call:
    """left * right."""
    return op("mul.Tensor", left, right)


def add(left: Term | Scalar, right: Term | Scalar) -> Call:
    """left + right."""
    return op("add.Tensor", left, right)


def sub(left: Term | Scalar, right: Term | Scalar) -> Call:
    """left - right."""
    return op("sub.Tensor", left, right)


def div(left: Term | Scalar, right: Term | Scalar) -> Call:
    """left / right."""
    return op("div.Tensor", left, right)
