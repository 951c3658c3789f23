"""Rules for the heads of attention: P20 (zeros at the end of each head) and P55 (heads that share keys, as rows).

Values are [heads, rows, lanes] here. Zeros are added at a number of the model's own, which no stock formula holds: such
rules have a free number and are used for one that is given (`instantiate`).
"""

from __future__ import annotations

from agents.drafters.rules.rule import A, Domain, Number, Rule, X, Y, Z, add, mul, op
from agents.drafters.rules.softmax import softmax
from agents.drafters.rules.terms import Call, Hole, Term

G, N = Number("g"), Number("n")
S = Hole("s")
FINITE = Domain(-1e3, 1e3, 1e-3, "rows of finite numbers")
HEADS, KEYS, ROWS = (4, 8, 8), (2, 8, 8), (2, 16, 8)
PAIRS, SHARED = (("g", 2),), (("x", HEADS), ("y", KEYS))


def padded(x: Term, count: Term = N) -> Term:
    """Each row with `count` zeros at its end."""
    return Call("row.padded", (x, count))


def under(x: Term, count: Term = N) -> Term:
    """`count` rows of zeros under the last one."""
    return Call("row.under", (x, count))


def repeated(x: Term, group: Term = G) -> Term:
    """Each head `group` times."""
    return Call("heads.repeated", (x, group))


def folded(x: Term, group: Term = G) -> Term:
    """The heads of a group as rows of one."""
    return Call("heads.folded", (x, group))


def unfolded(x: Term, group: Term = G) -> Term:
    """The rows of one head as the heads of a group."""
    return Call("heads.unfolded", (x, group))


def tiled(x: Term, group: Term = G) -> Term:
    """The rows `group` times under each other."""
    return Call("heads.tiled", (x, group))


def flipped(x: Term) -> Term:
    """Rows as columns."""
    return op("transpose.int", x, -2, -1)


def attention(q: Term, k: Term, v: Term, mask: Term) -> Term:
    """softmax(a q k^T + mask) v, fused."""
    return op("scaled_dot_product_attention", q, k, v, mask, 0.0, False, A)


def product(x: Term, y: Term) -> Term:
    """x @ y."""
    return op("matmul", x, y)


ZEROS = Rule(
    "zeros_between",
    product(X, Y),
    product(padded(X), under(Y)),
    FINITE,
    64,
    samples=(("n", 3), ("n", 8)),
    near_misses=(mul(X, Y),),
)
"""Zeros add nothing to a product. Its number is free: it is instantiated for the zeros that a head lacks."""

PADDING: tuple[Rule, ...] = (
    Rule(
        "zeros_of_flipped", under(flipped(X)), flipped(padded(X)), FINITE, 0, samples=(("n", 3),),
        near_misses=(under(X),),
    ),
    Rule(
        "zeros_of_product", padded(product(X, Y)), product(X, padded(Y)), FINITE, 64, samples=(("n", 3),),
        near_misses=(padded(mul(X, Y)),),
    ),
)  # fmt: skip

GROUPS: tuple[Rule, ...] = (
    Rule(
        "attention_by_group",
        attention(X, repeated(Y), repeated(Z), S),
        unfolded(attention(folded(X), Y, Z, tiled(S))),
        Domain(-3.0, 3.0, 1e-3, "queries and keys of finite scores"),
        64,
        samples=(*PAIRS, ("a", 0.125)),
        shapes=(*SHARED, ("z", KEYS)),
        near_misses=(attention(X, flipped(repeated(Y)), repeated(Z), S),),
    ),
    Rule(
        "scores_by_group",
        product(X, flipped(repeated(Y))),
        unfolded(product(folded(X), flipped(Y))),
        FINITE,
        64,
        samples=PAIRS,
        shapes=SHARED,
        near_misses=(product(X, repeated(Y)),),
    ),
    Rule(
        "scaled_by_group",
        mul(unfolded(X), A),
        unfolded(mul(X, A)),
        FINITE,
        0,
        samples=(*PAIRS, ("a", 0.125)),
        shapes=(("x", ROWS),),
        near_misses=(add(unfolded(X), A),),
    ),
    Rule(
        "added_by_group",
        add(unfolded(X), S),
        unfolded(add(X, tiled(S))),
        FINITE,
        0,
        samples=PAIRS,
        shapes=(("x", ROWS),),
        near_misses=(mul(unfolded(X), S),),
    ),
    Rule(
        "softmax_by_group",
        softmax(unfolded(X)),
        unfolded(softmax(X)),
        Domain(-80.0, 80.0, 1e-6, "scores of attention"),
        4,
        samples=PAIRS,
        shapes=(("x", ROWS),),
    ),
    Rule(
        "values_by_group",
        product(unfolded(X), repeated(Y)),
        unfolded(product(X, Y)),
        FINITE,
        64,
        samples=PAIRS,
        shapes=(("x", ROWS), ("y", KEYS)),
        near_misses=(product(unfolded(X), flipped(repeated(Y))),),
    ),
)

SHARED_HEADS: tuple[Rule, ...] = (*PADDING, *GROUPS)
