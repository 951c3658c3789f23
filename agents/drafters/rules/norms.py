"""Rules of patterns P10 to P12: norms written out, their squares held in range, variances in two passes."""

from __future__ import annotations

from agents.drafters.rules.rule import A, Domain, Rule, X, add, div, mul, op, sub
from agents.drafters.rules.terms import SCALES, Fold, Hole, Sort, Term

W, B = Hole("w", Sort.HOST), Hole("b", Sort.HOST)
N = Hole("n", Sort.CONSTANT)
LAST, KEPT = (-1,), True

ACTIVATIONS = Domain(-1e4, 1e4, 1e-4, "rows of activations")
_SIZES = (("w", (8,)), ("b", (8,)))
_EPS = (("a", 1e-5), ("a", 1e-12), ("n", (8,)))


def mean(x: Term) -> Term:
    """The mean of each row."""
    return op("mean.dim", x, LAST, KEPT)


def total(x: Term) -> Term:
    """The sum of each row."""
    return op("sum.dim_IntList", x, LAST, KEPT)


def centred(x: Term) -> Term:
    """Each row less its mean."""
    return sub(x, mean(x))


def over_root(x: Term, eps: Term) -> Term:
    """Each row over its root mean square."""
    return mul(x, op("rsqrt", add(mean(mul(x, x)), eps)))


def _held(scale: int) -> Rule:
    """x/s over the root of mean((x/s)^2) + eps/s^2: s cancels, and a power of two divides exactly."""
    held = mul(X, 1.0 / scale)
    return Rule(
        f"rms_held_by_{scale}",
        over_root(X, A),
        over_root(held, Fold(f"over_{scale * scale}", ("a",))),
        ACTIVATIONS,
        8,
        samples=(("a", 1e-5), ("a", 1e-6)),
        near_misses=(mul(X, op("rsqrt", add(mean(mul(X, X)), X))),),
        positive=("a",),
    )


NORMS: tuple[Rule, ...] = (
    Rule(
        "rms_norm_written",
        op("rms_norm", X, N, W, A),
        mul(over_root(X, A), W),
        ACTIVATIONS,
        16,
        samples=_EPS,
        shapes=_SIZES,
    ),
    Rule(
        "layer_norm_written",
        op("layer_norm", X, N, W, B, A),
        add(mul(over_root(centred(X), A), W), B),
        ACTIVATIONS,
        64,
        samples=_EPS,
        shapes=_SIZES,
        near_misses=(op("layer_norm", X, N, W, None, A),),
    ),
    Rule(
        "layer_norm_without_bias",
        op("layer_norm", X, N, W, None, A),
        mul(over_root(centred(X), A), W),
        ACTIVATIONS,
        64,
        samples=_EPS,
        shapes=_SIZES,
    ),
    Rule(
        "layer_norm_plain",
        op("layer_norm", X, N, None, None, A),
        over_root(centred(X), A),
        ACTIVATIONS,
        64,
        samples=_EPS,
    ),
    Rule(
        "variance_in_two_passes",
        op("var.correction", X, LAST, 0, KEPT),
        mean(mul(centred(X), centred(X))),
        ACTIVATIONS,
        32,
        near_misses=(op("var.correction", X, LAST, 1, KEPT),),
    ),
    *(_held(scale) for scale in SCALES),
    Rule(
        "length_as_root",
        op("linalg_vector_norm", X, 2.0, LAST, KEPT),
        op("sqrt", total(mul(X, X))),
        ACTIVATIONS,
        16,
        near_misses=(op("linalg_vector_norm", X, 1.0, LAST, KEPT),),
    ),
    Rule(
        "division_by_root",
        div(X, op("sqrt", Hole("r", Sort.ROW))),
        mul(X, op("rsqrt", Hole("r", Sort.ROW))),
        Domain(1e-9, 1e9, 1e-9, "rows above 0"),
        4,
        shapes=(("r", (8, 1)),),
    ),
)
"""The one-pass variance E[x^2] - m^2 is equal in real arithmetic and is no rule: it cancels (P11)."""
