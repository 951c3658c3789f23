"""Rules of patterns P40 to P42 for weights: softmax and its logarithm written out, with masks in three forms."""

from __future__ import annotations

from agents.drafters.rules.norms import KEPT, LAST, total
from agents.drafters.rules.rule import A, Domain, Rule, X, add, div, mul, op, sub
from agents.drafters.rules.terms import Hole, Sort, Term

M, R = Hole("m", Sort.MASK), Hole("r", Sort.ROW)
SCORES = Domain(-80.0, 80.0, 1e-6, "scores of attention, of each row one allowed")
FILLS = (("a", -65504.0), ("a", -32752.0))
FORBIDDEN = -30000.0


def largest(x: Term) -> Term:
    """The largest of each row."""
    return op("amax", x, LAST, KEPT)


def softmax(x: Term) -> Term:
    """exp(x) over its sum, by row."""
    return op("softmax.int", x, -1)


def shares(x: Term) -> Term:
    """Each row over its sum."""
    return div(x, total(x))


def filled(x: Term, fill: Term) -> Term:
    """Scores with `fill` where the mask allows nothing."""
    return op("where.ScalarOther", M, x, fill)


def additive(fill: Term) -> Term:
    """0 where the mask allows, `fill` elsewhere."""
    return op("where.Scalar", M, 0.0, fill)


_LOGARITHM = sub(sub(X, largest(X)), op("log", total(op("exp", sub(X, largest(X))))))

SOFTMAX: tuple[Rule, ...] = (
    Rule("softmax_written", softmax(X), shares(op("exp", sub(X, largest(X)))), SCORES, 16),
    Rule(
        "softmax_shifted",
        softmax(add(X, R)),
        softmax(X),
        SCORES,
        4096,
        shapes=(("r", (8, 1)),),
        near_misses=(softmax(mul(X, R)),),
    ),
    Rule("log_softmax_written", op("log_softmax.int", X, -1), _LOGARITHM, SCORES, 16),
    Rule(
        "log_softmax_by_logsumexp",
        op("log_softmax.int", X, -1),
        sub(X, op("logsumexp", X, LAST, KEPT)),
        SCORES,
        64,
    ),
    Rule(
        "logsumexp_written",
        op("logsumexp", X, LAST, KEPT),
        add(op("log", total(op("exp", sub(X, largest(X))))), largest(X)),
        SCORES,
        16,
    ),
    Rule("softmax_by_logarithm", softmax(X), op("exp", op("log_softmax.int", X, -1)), SCORES, 512),
    Rule(
        "masked_fill",
        op("masked_fill.Scalar", X, M, A),
        op("where.ScalarSelf", M, A, X),
        SCORES,
        0,
        samples=FILLS,
    ),
    Rule(
        "mask_added",
        softmax(filled(X, A)),
        softmax(add(X, additive(A))),
        SCORES,
        16,
        most=(("a", FORBIDDEN),),
        samples=FILLS,
        full_mask_outside=True,
    ),
    Rule(
        "weights_of_masked_pairs_out",
        softmax(add(X, additive(A))),
        shares(mul(softmax(add(X, additive(A))), M)),
        SCORES,
        16,
        most=(("a", FORBIDDEN),),
        samples=FILLS,
        full_mask_outside=True,
        near_misses=(softmax(sub(X, additive(A))),),
    ),
    Rule(
        "masked_after",
        softmax(filled(X, A)),
        shares(mul(softmax(X), M)),
        Domain(-20.0, 20.0, 1e-6, "scores within 40 of one another, of each row one allowed"),
        4096,
        most=(("a", FORBIDDEN),),
        samples=FILLS,
        full_mask_outside=True,
    ),
)
"""A row that may see nothing is an average of everything by a finite fill, and 0/0 by the others: pads only (P40)."""
