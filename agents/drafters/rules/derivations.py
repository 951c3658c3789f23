"""Why a structural pattern's formula is the stock one: both as terms, and the chain of rules between them.

The chain is stored with the patch, as that of a document is, and replayed by whoever checks it. What stands here is the
formula; that a patch on a model computes it is for the gate to show. Tests capture the stock code and the patch's own
and compare them with these terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from agents.drafters.rules.attention import matmul, row, turned
from agents.drafters.rules.heads import ZEROS, flipped, folded, padded, repeated, tiled, under, unfolded
from agents.drafters.rules.norms import centred, over_root
from agents.drafters.rules.prove import find_chain, steps_from
from agents.drafters.rules.rewrite import instantiate, replace_term
from agents.drafters.rules.rule import Rule, add, div, mul, op
from agents.drafters.rules.softmax import additive, shares, softmax
from agents.drafters.rules.table import ROW_RULES, RULES
from agents.drafters.rules.terms import FOLDS, SCALES, Const, Input, Term

X, Q, K, V = Input("x"), Input("q"), Input("k"), Input("v")
WEIGHT, BIAS, MASK = Input("weight"), Input("weight_bias"), Input("mask")
COS, SIN = Input("table_cos"), Input("table_sin")
EPS, SCALE, FILL = 1e-6, 0.125, -32752.0


@dataclass(frozen=True)
class Derivation:
    """A pattern's stock formula, its own, and the names of the rules that may lead from the one to the other.

    `own` are rules with a number of this pattern's parameters.
    """

    stock: Term
    patched: Term
    rules: tuple[str, ...]
    own: tuple[Rule, ...] = ()


def _rotation(quarter: Term) -> Term:
    return add(mul(X, COS), mul(quarter, SIN))


def _rms(scale: float) -> Derivation:
    """The squared power first, then the row held back by `scale`."""
    stock = mul(WEIGHT, mul(X, op("rsqrt", add(op("mean.dim", op("pow.Tensor_Scalar", X, 2.0), (-1,), True), EPS))))
    eps: Term = Const(EPS)
    if scale == 1:
        return Derivation(stock, mul(WEIGHT, over_root(X, eps)), ("pow_square",))
    held = Const(FOLDS[f"over_{int(scale * scale)}"](EPS))
    patched = mul(WEIGHT, over_root(mul(X, 1.0 / scale), held))
    return Derivation(stock, patched, ("pow_square", f"rms_held_by_{int(scale)}"))


def _zeros(count: int) -> Derivation:
    """Heads with `count` zeros at their ends, which the output projection does not read."""
    scale, lanes = SCALE, Const(count)
    scores = lambda q, k: softmax(add(mul(matmul(q, flipped(k)), scale), Input("mask_added")))  # noqa: E731
    stock = matmul(matmul(scores(Q, K), V), WEIGHT)
    wider = matmul(scores(padded(Q, lanes), padded(K, lanes)), padded(V, lanes))
    own = instantiate(ZEROS, "n", lanes)
    assert own is not None
    return Derivation(stock, matmul(wider, under(WEIGHT, lanes)), ("zeros_of_flipped", "zeros_of_product"), (own,))


def _masked(stock: bool) -> Term:
    scores = add(mul(matmul(Q, op("transpose.int", K, -2, -1)), SCALE), _mask())
    weights = softmax(scores)
    return matmul(weights if stock else shares(mul(weights, MASK)), V)


def _mask() -> Term:
    from agents.drafters.rules.rewrite import replace_term
    from agents.drafters.rules.softmax import M

    return replace_term(additive(Const(FILL)), M, MASK)


def _attention(q: Term = Q, k: Term = K, v: Term = V, mask: Term | None = None) -> Term:
    return op("scaled_dot_product_attention", q, k, v, mask or _mask(), 0.0, False, SCALE)


_HALF = row("cat", op("neg", row("second", X)), row("first", X))
_PAIR = row("interleave", op("neg", row("odd", X)), row("even", X))
_LINEAR = matmul(X, WEIGHT)
_PAIRED = Const(2)
_LAYER_NORM = Derivation(
    op("layer_norm", X, (8,), WEIGHT, BIAS, EPS),
    add(mul(over_root(centred(X), Const(EPS)), WEIGHT), BIAS),
    ("layer_norm_written",),
)
_ERF = mul(mul(X, 0.5), add(op("erf", div(X, 2.0**0.5)), 1.0))

TABLE: Mapping[str, Derivation] = MappingProxyType(
    {
        "P03": Derivation(_ERF, op("gelu", X), ("gelu_of_erf_division",)),
        "P06": Derivation(
            mul(op("silu", row("first", _LINEAR)), row("second", _LINEAR)),
            mul(op("silu", matmul(X, row("first", WEIGHT))), matmul(X, row("second", WEIGHT))),
            ("first_of_product", "second_of_product"),
        ),
        "P11": _LAYER_NORM,
        "P57": _LAYER_NORM,
        "P58": _rms(1),
        "P14": Derivation(_rotation(_HALF), _rotation(turned(X, "table_half_turn")), ("half_turn",)),
        "P18": Derivation(_rotation(_PAIR), _rotation(turned(X, "table_pair_turn")), ("pair_turn",)),
        "P41": Derivation(_attention(), _masked(False), ("attention_written", "weights_of_masked_pairs_out")),
        "P42": Derivation(_attention(), _masked(True), ("attention_written",)),
        "P49": Derivation(
            op("gather", X, -1, Input("index")),
            row("chosen", X, row("lanes", Input("index"), X)),
            ("lanes_by_number",),
        ),
        "P55": Derivation(
            _attention(Q, repeated(K, _PAIRED), repeated(V, _PAIRED)),
            unfolded(_attention(folded(Q, _PAIRED), K, V, tiled(_mask(), _PAIRED)), _PAIRED),
            ("attention_by_group",),
        ),
    }
)
"""Pattern → derivation, for patterns whose formula no parameter changes; P55's group of two stands for any.

P10's depends on its scale, P20's on the zeros of a head.
"""


def derivation_of(pattern: str, parameters: Mapping[str, Any]) -> Derivation | None:
    """The derivation of a pattern with its parameters; None where the language does not reach."""
    if pattern == "P10":
        scale = parameters.get("scale", 1.0)
        return _rms(scale) if scale == 1 or scale in SCALES else None
    if pattern == "P20":
        count = parameters.get("padded_head_dim", 0) - parameters.get("head_dim", 0)
        return _zeros(count) if count > 0 else None
    return TABLE.get(pattern)


def proof_of(pattern: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The chain of rules as text; empty where there is none."""
    derivation = derivation_of(pattern, parameters)
    return () if derivation is None else _chain(derivation)


@cache
def _chain(derivation: Derivation) -> tuple[str, ...]:
    rules = [rule for rule in (*RULES, *ROW_RULES) if rule.name in derivation.rules]
    steps = find_chain(derivation.stock, derivation.patched, [*rules, *derivation.own])
    return () if steps is None else tuple(str(step) for step in steps)


def holds(pattern: str, parameters: Mapping[str, Any], proof: tuple[str, ...]) -> bool:
    """Whether a stored chain leads from the pattern's stock formula to its own, replayed step by step."""
    derivation = derivation_of(pattern, parameters)
    if derivation is None or not proof:
        return False
    term, rules = derivation.stock, (*RULES, *ROW_RULES, *derivation.own)
    for line in proof:
        step = next((s for s in steps_from(term, rules) if str(s) == line), None)
        if step is None:
            return False
        term = replace_term(term, step.before, step.after)
    return term == derivation.patched
