"""Rules of patterns P02 to P05 and P08: activations, divisions, roots, clamps and choices in other operations."""

from __future__ import annotations

import math

from agents.drafters.rules.rule import ANY, LARGEST, A, B, C, Domain, Rule, X, Y, add, div, mul, op, sub
from agents.drafters.rules.terms import Fold, Hole, Sort, Term
from agents.types import Exactness

POSITIVE = Domain(1e-9, LARGEST, 1e-9, "every x above 0")
ERF_TERMS = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun 7.1.26; |error| <= 1.5e-7 in erf."""
GELU_SCALE = math.sqrt(2 / math.pi)
ERF_BOUND, SOFTPLUS_BOUND = 1.5e-7, 2.1e-9


def erf_term(x: Term) -> Term:
    """erf(x) = s*(1 - (a1 t + ... + a5 t^5) exp(-x^2)), t = 1/(1 + 0.3275911 |x|), s the sign of x.

    Beyond 10 erf is 1 in every format; x^2 would leave the device's range at 92,582.
    """
    x = op("clamp", x, -10.0, 10.0)
    t = op("reciprocal", add(mul(op("abs", x), 0.3275911), 1.0))
    polynomial: Term = mul(t, ERF_TERMS[-1])
    for coefficient in reversed(ERF_TERMS[:-1]):
        polynomial = mul(t, add(polynomial, coefficient))
    positive = add(op("neg", mul(polynomial, op("exp", op("neg", mul(x, x))))), 1.0)
    return op("where.self", op("ge.Scalar", x, 0.0), positive, op("neg", positive))


def gelu_tanh_term(x: Term) -> Term:
    """x*sigmoid(2z), z = sqrt(2/pi) (x + 0.044715 x^3): beyond 40 the sigmoid is 0 or 1 even in fp64."""
    held = op("clamp", x, -40.0, 40.0)
    cubic = mul(held, add(mul(mul(held, held), 0.044715), 1.0))
    return mul(x, op("sigmoid", mul(cubic, 2 * GELU_SCALE)))


def _cubic(x: Term, a: Term | float) -> Term:
    """x (1 + a x^2)."""
    return mul(x, add(mul(mul(x, x), a), 1.0))


def softplus_term(x: Term) -> Term:
    """max(x, 0) + log(1 + exp(-|x|))."""
    return add(op("relu", x), op("log", add(op("exp", op("neg", op("abs", x))), 1.0)))


def _both(rule: Rule, back: str) -> tuple[Rule, Rule]:
    """A rule and its inverse, where every hole of the one side stands on the other."""
    fields = {**rule.__dict__, "name": back, "match": rule.to, "to": rule.match, "near_misses": (), "outside": None}
    return rule, Rule(**fields)


_MASK = Hole("m", Sort.MASK)
_bounded = Exactness.BOUNDED

GELU: tuple[Rule, ...] = (
    *_both(
        Rule(
            "gelu_erf", op("gelu", X), mul(mul(X, 0.5), add(op("erf", mul(X, math.sqrt(0.5))), 1.0)), ANY, 8, scale=1.0
        ),
        "gelu_of_erf",
    ),
    Rule(
        "gelu_of_erf_division",
        mul(mul(X, 0.5), add(op("erf", div(X, math.sqrt(2.0))), 1.0)),
        op("gelu", X),
        ANY,
        8,
        scale=1.0,
        near_misses=(mul(mul(X, 0.5), add(op("erf", div(X, 2.0)), 1.0)),),
    ),
    Rule("gelu_none", op("gelu", X, approximate="none"), op("gelu", X), ANY, 0),
    Rule(
        "gelu_tanh",
        op("gelu", X, approximate="tanh"),
        gelu_tanh_term(X),
        ANY,
        8,
        scale=1.0,
        near_misses=(op("gelu", X), op("gelu", X, approximate="none")),
    ),
    Rule(
        "tanh_to_sigmoid",
        add(op("tanh", X), 1.0),
        mul(op("sigmoid", mul(X, 2.0)), 2.0),
        ANY,
        4,
        scale=1.0,
        near_misses=(add(op("tanh", X), 2.0), sub(op("tanh", X), 1.0)),
    ),
    Rule(
        "tanh_to_sigmoid_held",
        add(op("tanh", X), 1.0),
        mul(op("sigmoid", mul(op("clamp", X, -400.0, 400.0), 2.0)), 2.0),
        ANY,
        4,
        scale=1.0,
        holds_back="tanh_to_sigmoid",
    ),
    Rule(
        "tanh_of_cubic_held",
        add(op("tanh", mul(_cubic(X, A), B)), 1.0),
        mul(op("sigmoid", mul(_cubic(op("clamp", X, -40.0, 40.0), A), Fold("double", ("b",)))), 2.0),
        ANY,
        8,
        scale=1.0,
        near_misses=(
            add(op("tanh", mul(_cubic(X, 0.044715), 0.7978845608)), 2.0),
            add(op("tanh", _cubic(X, 0.044715)), 1.0),
        ),
        least=(("a", 0.0), ("b", 0.5)),
        samples=(("a", 0.044715), ("b", 0.7978845608)),
        holds_back="tanh_to_sigmoid",
    ),
    Rule("erf_rational", op("erf", X), erf_term(X), ANY, exactness=_bounded, bound=ERF_BOUND),
)

SIGMOIDS: tuple[Rule, ...] = (
    *_both(Rule("silu", op("silu", X), mul(X, op("sigmoid", X)), ANY, 4), "silu_of_sigmoid"),
    Rule("sigmoid_tanh", op("sigmoid", X), mul(add(op("tanh", mul(X, 0.5)), 1.0), 0.5), ANY, 4, scale=1.0),
    Rule(
        "sigmoid_exp",
        op("sigmoid", X),
        op("reciprocal", add(op("exp", op("neg", X)), 1.0)),
        Domain(-700.0, LARGEST, 1e-9, "every x above -700"),
        4,
    ),
    Rule("tanh_sigmoid", op("tanh", X), add(mul(op("sigmoid", mul(X, 2.0)), 2.0), -1.0), ANY, 4, scale=1.0),
    Rule(
        "tanh_sigmoid_held",
        op("tanh", X),
        add(mul(op("sigmoid", mul(op("clamp", X, -20.0, 20.0), 2.0)), 2.0), -1.0),
        ANY,
        4,
        scale=1.0,
        holds_back="tanh_sigmoid",
    ),
    Rule("softplus", op("softplus", X), softplus_term(X), ANY, exactness=_bounded, bound=SOFTPLUS_BOUND, scale=1.0),
    Rule(
        "softplus_default_threshold",
        op("softplus", X, A),
        op("softplus", X, A, 20.0),
        ANY,
        0,
        samples=(("a", 1.0), ("a", 2.0)),
    ),
    Rule(
        "softplus_scaled",
        op("softplus", X, A, B),
        mul(softplus_term(mul(X, A)), Fold("reciprocal", ("a",))),
        ANY,
        exactness=_bounded,
        bound=SOFTPLUS_BOUND,
        scale=1.0,
        positive=("a",),
        samples=(("a", 1.0), ("a", 2.0), ("b", 20.0)),
    ),
    Rule("mish", op("mish", X), mul(X, op("tanh", softplus_term(X))), exactness=_bounded, bound=1e-14),
    Rule(
        "log1p",
        op("log1p", X),
        op("log", add(X, 1.0)),
        Domain(0.0, LARGEST, 1e-9, "x >= 0"),
        4,
        scale=1.0,
        outside=1e-20,
    ),
)

ROOTS: tuple[Rule, ...] = (
    *_both(Rule("rsqrt", op("rsqrt", X), op("reciprocal", op("sqrt", X)), POSITIVE, 3), "rsqrt_of_sqrt"),
    *_both(Rule("division", div(X, Y), mul(X, op("reciprocal", Y)), ANY, 2), "division_of_reciprocal"),
    Rule("reciprocal_as_division", op("reciprocal", X), op("pow.Tensor_Scalar", X, -1.0), ANY, 1),
    Rule(
        "division_by_number",
        div(X, C),
        mul(X, Fold("reciprocal", ("c",))),
        ANY,
        2,
        nonzero=("c",),
        samples=(("c", 8.0), ("c", 3.0), ("c", math.sqrt(2))),
    ),
    Rule("division_scalar", op("div.Scalar", X, C), div(X, C), ANY, 0, nonzero=("c",), samples=(("c", 3.0),)),
)

CLAMPS: tuple[Rule, ...] = (
    *_both(Rule("relu", op("relu", X), op("clamp_min", X, 0.0), ANY, 0), "relu_of_clamp"),
    Rule("hardtanh", op("hardtanh", X, A, B), op("clamp", X, A, B), ANY, 0, samples=(("a", -1.0), ("b", 6.0))),
    Rule(
        "clamp",
        op("clamp", X, A, B),
        op("clamp_max", op("clamp_min", X, A), B),
        ANY,
        0,
        samples=(("a", -1.0), ("b", 2.0)),
    ),
    Rule(
        "clamp_min",
        op("clamp_min", X, A),
        op("where.ScalarOther", op("gt.Scalar", X, A), X, A),
        ANY,
        0,
        outside=math.nan,
        samples=(("a", -1.0), ("a", 0.0)),
    ),
    Rule(
        "clamp_max",
        op("clamp_max", X, A),
        op("where.ScalarOther", op("lt.Scalar", X, A), X, A),
        ANY,
        0,
        outside=math.nan,
        samples=(("a", 6.0),),
    ),
    Rule("clamp_min_none", op("clamp", X, A), op("clamp_min", X, A), ANY, 0, samples=(("a", -2.0),)),
    Rule("clamp_max_none", op("clamp", X, None, A), op("clamp_max", X, A), ANY, 0, samples=(("a", 2.0),)),
    Rule("minimum", op("minimum", X, Y), op("neg", op("maximum", op("neg", X), op("neg", Y))), ANY, 0),
    Rule(
        "maximum",
        op("maximum", X, Y),
        add(op("relu", sub(X, Y)), Y),
        Domain(-1e4, 1e4, 1e-4, "finite x and y of like size"),
        4,
        scale=1e4,
    ),
    Rule("abs", op("abs", X), op("maximum", X, op("neg", X)), ANY, 0),
    Rule(
        "sign",
        op("sign", X),
        op("where.ScalarSelf", op("gt.Scalar", X, 0.0), 1.0, op("where.ScalarSelf", op("lt.Scalar", X, 0.0), -1.0, X)),
        ANY,
        0,
    ),
    Rule(
        "leaky_relu",
        op("leaky_relu", X, A),
        add(op("relu", X), mul(op("relu", op("neg", X)), Fold("negative", ("a",)))),
        ANY,
        1,
        samples=(("a", 0.01), ("a", 0.2)),
    ),
    Rule("leaky_relu_default", op("leaky_relu", X), op("leaky_relu", X, 0.01), ANY, 0),
    Rule(
        "elu",
        op("elu", X, A),
        add(op("relu", X), mul(add(op("exp", op("neg", op("relu", op("neg", X)))), -1.0), A)),
        ANY,
        4,
        scale=1.0,
        samples=(("a", 1.0), ("a", 0.5)),
    ),
    Rule("elu_default", op("elu", X), op("elu", X, 1.0), ANY, 0),
)

CHOICES: tuple[Rule, ...] = (
    Rule(
        "where_products",
        op("where.self", _MASK, X, Y),
        add(mul(_MASK, X), mul(add(mul(_MASK, -1.0), 1.0), Y)),
        Domain(-1e9, 1e9, 1e-9, "finite x and y"),
        0,
        outside=math.inf,
    ),
    Rule(
        "where_self_scalar",
        op("where.ScalarSelf", _MASK, C, X),
        add(mul(_MASK, C), mul(add(mul(_MASK, -1.0), 1.0), X)),
        Domain(-1e9, 1e9, 1e-9, "finite x"),
        0,
        outside=math.inf,
        samples=(("c", 2.0),),
    ),
    Rule(
        "where_other_scalar",
        op("where.ScalarOther", _MASK, X, C),
        add(mul(_MASK, X), mul(add(mul(_MASK, -1.0), 1.0), C)),
        Domain(-1e9, 1e9, 1e-9, "finite x"),
        0,
        outside=math.inf,
        samples=(("c", 2.0),),
    ),
)
"""Exact for finite values only: a product of 0 with an infinity is NaN (P08). The range check refuses those."""

ALGEBRA: tuple[Rule, ...] = (
    Rule("mul_commutes", mul(X, Y), mul(Y, X), ANY, 0),
    Rule("add_commutes", add(X, Y), add(Y, X), ANY, 0),
    Rule("factor_first", mul(mul(X, A), Y), mul(mul(X, Y), A), ANY, 2, samples=(("a", 0.5), ("a", 3.0))),
    Rule(
        "product_of_numbers",
        mul(mul(X, A), B),
        mul(X, Fold("product", ("a", "b"))),
        ANY,
        2,
        samples=(("a", 3.0), ("b", 0.7)),
    ),
    Rule("times_one", mul(X, 1.0), X, ANY, 0, near_misses=(mul(X, 2.0),)),
    Rule("plus_zero", add(X, 0.0), X, ANY, 0, near_misses=(add(X, 1.0),)),
    Rule("subtract_number", sub(X, A), add(X, Fold("negative", ("a",))), ANY, 0, samples=(("a", 0.7),)),
    Rule("subtraction", sub(X, Y), add(X, op("neg", Y)), ANY, 0),
    Rule("number_minus", op("rsub.Scalar", X, A), add(op("neg", X), A), ANY, 0, samples=(("a", 1.0),)),
    Rule("negative_factor", op("neg", X), mul(X, -1.0), ANY, 0),
    Rule(
        "cubic_grouped",
        add(X, mul(mul(mul(X, X), X), A)),
        mul(X, add(mul(mul(X, X), A), 1.0)),
        Domain(-1e6, 1e6, 1e-6, "every x whose cube is a normal number"),
        4,
        samples=(("a", 0.044715), ("a", 2.0)),
    ),
)

ELEMENTWISE: tuple[Rule, ...] = (*GELU, *SIGMOIDS, *ROOTS, *CLAMPS, *CHOICES, *ALGEBRA)
