"""Rules for attention and what leads to it: P06 and P27, P14 to P18, P32, P42 to P44, P49: matrix products instead.

Products with `table_*` are sums over the lanes of a row with 0, 1 and -1: exact where every value is finite.
"""

from __future__ import annotations

import math

from agents.drafters.rules.norms import W
from agents.drafters.rules.rule import A, Domain, Rule, X, Y, add, mul, op, sub
from agents.drafters.rules.softmax import softmax
from agents.drafters.rules.terms import Hole, Input, Sort, Term

Q, K, V, S = Hole("q"), Hole("k"), Hole("v"), Hole("s")
WIDE_X, WIDE_Y = Hole("x", exact=True), Hole("y", exact=True)
I = Hole("i", Sort.INDEX)  # noqa: E741 - an index
FINITE = Domain(-1e3, 1e3, 1e-3, "rows of finite numbers")
ANGLES = Domain(-1e5, 1e5, 1e-6, "angles of positions")
INF = math.inf


def row(name: str, *args: Term) -> Term:
    """A part or a joining of rows."""
    from agents.drafters.rules.terms import Call

    return Call(f"row.{name}", args)


def matmul(left: Term, right: Term) -> Term:
    """left @ right."""
    return op("matmul", left, right)


def turned(x: Term, table: str) -> Term:
    """x @ T, T the matrix of a quarter turn."""
    return matmul(x, Input(table))


ATTENTION: tuple[Rule, ...] = (
    Rule(
        "attention_written",
        op("scaled_dot_product_attention", Q, K, V, S, 0.0, False, A),
        matmul(softmax(add(mul(matmul(Q, op("transpose.int", K, -2, -1)), A), S)), V),
        Domain(-3.0, 3.0, 1e-3, "queries and keys of finite scores"),
        64,
        samples=(("a", 0.125), ("a", 0.3)),
    ),
    Rule(
        "attention_without_mask",
        op("scaled_dot_product_attention", Q, K, V, None, 0.0, False, A),
        matmul(softmax(mul(matmul(Q, op("transpose.int", K, -2, -1)), A)), V),
        Domain(-3.0, 3.0, 1e-3, "queries and keys of finite scores"),
        64,
        samples=(("a", 0.125),),
        near_misses=(op("scaled_dot_product_attention", Q, K, V, None, 0.0, True, A),),
    ),
    Rule("scaled_before", mul(matmul(X, Y), A), matmul(mul(X, A), Y), FINITE, 64, samples=(("a", 0.125), ("a", 0.3))),
    Rule("scaled_behind", matmul(X, mul(Y, A)), mul(matmul(X, Y), A), FINITE, 64, samples=(("a", 0.125), ("a", 0.3))),
)

GATES: tuple[Rule, ...] = (
    Rule(
        "glu_by_halves",
        op("glu", X, -1),
        mul(row("first", X), op("sigmoid", row("second", X))),
        FINITE,
        4,
    ),
    *(
        rule
        for half in ("first", "second")
        for rule in (
            Rule(f"{half}_of_product", row(half, matmul(X, W)), matmul(X, row(half, W)), FINITE, 64),
            Rule(
                f"{half}_of_sum",
                row(half, add(WIDE_X, W)),
                add(row(half, WIDE_X), row(half, W)),
                FINITE,
                0,
                shapes=(("w", (8,)),),
            ),
        )
    ),
    Rule("linear_as_product", op("linear", X, W), matmul(X, op("transpose.int", W, -2, -1)), FINITE, 64),
    Rule(
        "linear_with_bias",
        op("linear", X, W, Hole("b", Sort.HOST)),
        add(matmul(X, op("transpose.int", W, -2, -1)), Hole("b", Sort.HOST)),
        FINITE,
        64,
        shapes=(("b", (8,)),),
    ),
)

ROTATIONS: tuple[Rule, ...] = (
    Rule(
        "half_turn",
        row("cat", op("neg", row("second", WIDE_X)), row("first", WIDE_X)),
        turned(WIDE_X, "table_half_turn"),
        FINITE,
        0,
        outside=INF,
        near_misses=(row("cat", row("second", WIDE_X), row("first", WIDE_X)),),
    ),
    Rule(
        "pair_turn",
        row("interleave", op("neg", row("odd", WIDE_X)), row("even", WIDE_X)),
        turned(WIDE_X, "table_pair_turn"),
        FINITE,
        0,
        outside=INF,
        near_misses=(row("interleave", row("odd", WIDE_X), row("even", WIDE_X)),),
    ),
    Rule("sine_as_cosine", op("sin", X), op("cos", add(X, -math.pi / 2)), ANGLES, 4, scale=3e5),
    Rule(
        "cosine_of_sum",
        op("cos", add(X, Y)),
        sub(mul(op("cos", X), op("cos", Y)), mul(op("sin", X), op("sin", Y))),
        ANGLES,
        4,
        scale=3e5,
    ),
    Rule(
        "sine_of_sum",
        op("sin", add(X, Y)),
        add(mul(op("sin", X), op("cos", Y)), mul(op("cos", X), op("sin", Y))),
        ANGLES,
        4,
        scale=3e5,
    ),
    *(
        Rule(
            f"{name}_of_joined",
            op(name, row("cat", WIDE_X, WIDE_Y)),
            row("cat", op(name, WIDE_X), op(name, WIDE_Y)),
            ANGLES,
            0,
        )
        for name in ("sin", "cos")
    ),
)
"""A table is sines and cosines of positions alone: of sort HOST, so it costs the device nothing (P14)."""

LOOK_UPS: tuple[Rule, ...] = (
    Rule(
        "sums_along_a_row",
        op("cumsum", X, -1),
        matmul(X, Input("table_upper")),
        FINITE,
        64,
        outside=INF,
        near_misses=(op("cumsum", X, 0),),
    ),
    Rule(
        "rows_by_number",
        op("embedding", W, I),
        matmul(row("one_hot", I, W), W),
        FINITE,
        0,
        outside=INF,
        shapes=(("i", (8,)),),
    ),
    Rule("lanes_by_number", op("gather", X, -1, I), row("chosen", X, row("lanes", I, X)), FINITE, 0, outside=INF),
)
"""Exact for finite values: a product of 0 with an infinity is NaN."""

SCORES: tuple[Rule, ...] = (*ATTENTION, *GATES, *ROTATIONS, *LOOK_UPS)
