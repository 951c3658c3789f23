"""Whole rows: the form a device computes is found with its proof, cheapest first, within the format's range."""

from __future__ import annotations

import pytest

from agents.drafters.rules.attention import matmul, row
from agents.drafters.rules.ranges import Box, boxes_of, stays_within
from agents.drafters.rules.rows import cost_of_rows, rewrite_rows
from agents.drafters.rules.rule import add, mul, op
from agents.drafters.rules.softmax import softmax
from agents.drafters.rules.terms import Call, Const, Input, Term, subterms

X, WEIGHT, BIAS, POSITION, INDEX = (Input(n) for n in ("x", "weight", "weight_bias", "position", "index"))
EPS = Const(1e-6)
POWER = op("pow.Tensor_Scalar", X, 2.0)
FORMS: dict[str, tuple[Term, tuple[str, ...], tuple[str, ...]]] = {
    "rms norm": (
        mul(WEIGHT, mul(X, op("rsqrt", add(op("mean.dim", POWER, (-1,), True), EPS)))), ("pow",), ("mul", "rsqrt"),
    ),
    "layer norm": (op("layer_norm", X, (8,), WEIGHT, BIAS, 1e-6), ("layer_norm",), ("mean", "rsqrt")),
    "softmax": (softmax(X), ("softmax", "log_softmax", "logsumexp"), ("amax", "exp", "sum")),
    "log softmax": (op("log_softmax.int", X, -1), ("log_softmax", "logsumexp"), ("amax", "log")),
    "glu": (op("glu", X, -1), ("glu",), ("first", "sigmoid")),
    "fused gate": (
        mul(op("silu", row("first", matmul(X, WEIGHT))), row("second", matmul(X, WEIGHT))), ("silu",), ("sigmoid",),
    ),
    "quarter turn": (
        row("cat", op("neg", row("second", X)), row("first", X)), ("cat", "first", "second"), ("matmul",),
    ),
    "running sums": (op("cumsum", X, -1), ("cumsum",), ("matmul",)),
    "lanes by number": (op("gather", X, -1, INDEX), ("gather",), ("chosen",)),
}  # fmt: skip

HELD = {Const(1 / 16), Const(1 / 64), Const(1 / 256)}


def names(term: Term) -> set[str]:
    return {t.op.split(".")[1] for t in subterms(term) if isinstance(t, Call)}


@pytest.mark.parametrize("name", FORMS)
def test_what_must_go_is_gone_and_the_chain_is_kept(name: str) -> None:
    stock, refused, wanted = FORMS[name]
    done = rewrite_rows(stock, lambda call: call.op.split(".")[1] in refused)
    assert not names(done.term) & set(refused)
    assert set(wanted) <= names(done.term)
    assert done.proved


def test_tables_of_positions_are_the_host_s_and_stay() -> None:
    table = op("cos", POSITION)
    unwanted = lambda call: call.op == "aten.cos.default" and cost_of_rows(call) > 0  # noqa: E731
    assert rewrite_rows(mul(X, table), unwanted).term == mul(X, table)
    assert cost_of_rows(table) == 0.0


def test_a_reduction_costs_less_than_what_it_reduces_and_what_follows_it_next_to_nothing() -> None:
    mean = op("mean.dim", X, (-1,), True)
    assert 0 < cost_of_rows(op("rsqrt", mean)) < cost_of_rows(mean) < cost_of_rows(mul(X, X))


def test_squares_beyond_the_format_are_held_back() -> None:
    stock = mul(X, op("rsqrt", add(op("mean.dim", POWER, (-1,), True), EPS)))
    plain = rewrite_rows(stock, lambda call: "pow" in call.op, {"x": Box(-100.0, 100.0)})
    held = rewrite_rows(stock, lambda call: "pow" in call.op, {"x": Box(-1e6, 1e6)})
    scales = [[t for t in subterms(done.term) if t in HELD] for done in (plain, held)]
    assert [len(found) for found in scales] == [0, 1]
    assert stays_within(held.term, {"x": Box(-1e6, 1e6)}, 768)


def test_boxes_hold_what_is_computed_and_the_unknown_has_none() -> None:
    found = boxes_of(softmax(mul(X, 2.0)), {"x": Box(-3.0, 1.0)}, 8)
    assert list(found.values())[-1] == Box(0.0, 1.0)
    assert found[mul(X, 2.0)] == Box(-6.0, 2.0)
    assert found[X] == Box(-3.0, 1.0)
    assert not stays_within(Call("aten.erfinv.default", (X,)), {"x": Box(-1.0, 1.0)}, 8)
    assert not stays_within(X, {}, 8)
