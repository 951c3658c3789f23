"""Derivations: chains are found and replay, changed ones do not; the terms are what stock code and patches compute."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.models.gptj.modeling_gptj import rotate_every_two
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, rotate_half

from adapters.patches.attention import grouped, renormalised, written_out
from adapters.patches.heads import pad_columns, pad_rows
from adapters.patches.norms import layer_norm_of, rms_of
from adapters.patches.rotary import turned
from adapters.patches.wide_norms import wide_layer_norm
from adapters.patches.wide_rms_norms import wide_rms_norm
from agents.drafters.rules.derivations import FILL, SCALE, TABLE, derivation_of, holds, proof_of
from agents.drafters.rules.evaluate import evaluate, table_of

NAMES = [*((name, {}) for name in TABLE), ("P10", {"scale": 1.0}), ("P10", {"scale": 64.0}),
         ("P20", {"head_dim": 32, "padded_head_dim": 64})]  # fmt: skip
SIZE = 8
Values = dict[str, Tensor]


@pytest.mark.parametrize(("pattern", "parameters"), NAMES)
def test_a_chain_is_found_and_replays_and_a_shortened_one_does_not(pattern: str, parameters: dict[str, Any]) -> None:
    proof = proof_of(pattern, parameters)
    assert proof
    assert holds(pattern, parameters, proof)
    assert not holds(pattern, parameters, proof[:-1])
    assert not holds(pattern, parameters, (*proof, proof[-1]))
    assert not holds(pattern, parameters, tuple(line.replace("within", "without") for line in proof))


def test_a_pattern_or_a_scale_that_the_language_does_not_reach_has_no_proof() -> None:
    assert proof_of("P20", {"head_dim": 32}) == ()
    assert proof_of("P10", {"scale": 7.0}) == ()
    assert not holds("P20", {}, ("x",))


@pytest.fixture(scope="module")
def values() -> Values:
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    angles = draw(SIZE, SIZE // 2).repeat(1, 2)
    return {
        "x": draw(SIZE, SIZE), "q": draw(SIZE, SIZE), "k": draw(SIZE, SIZE), "v": draw(SIZE, SIZE),
        "weight": draw(SIZE), "weight_bias": draw(SIZE), "mask": torch.ones(SIZE, SIZE).tril().bool(),
        "table_cos": angles.cos(), "table_sin": angles.sin(),
        **{name: table_of(name, SIZE) for name in ("table_half_turn", "table_pair_turn")},
    }  # fmt: skip


def both(pattern: str, values: Values, **parameters: Any) -> tuple[Tensor, Tensor]:
    derivation = derivation_of(pattern, parameters)
    assert derivation is not None
    return evaluate(derivation.stock, values), evaluate(derivation.patched, values)


def near(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one.double(), other.double(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 64.0])
def test_the_norms_terms_are_the_stock_class_and_the_patch(values: Values, scale: float) -> None:
    stock, patched = both("P10", values, scale=scale)
    norm: Any = Qwen3RMSNorm(SIZE, 1e-6).double()
    norm.weight = nn.Parameter(values["weight"])
    assert torch.allclose(norm(values["x"]), stock, rtol=1e-6)  # the class computes in fp32
    norm.rms_scale, norm.rms_epsilon = 1.0 / scale, 1e-6 / scale**2
    assert near(rms_of(norm, values["x"]), patched)


def test_the_wide_rms_norm_s_terms_are_the_stock_class_and_the_patch(values: Values) -> None:
    stock, patched = both("P58", values)
    norm: Any = Qwen3RMSNorm(SIZE, 1e-6).double()
    norm.weight = nn.Parameter(values["weight"])
    assert torch.allclose(norm(values["x"]), stock, rtol=1e-6)  # the class computes in fp32
    norm.rms_epsilon, norm.gain_offset = 1e-6, 0.0
    assert near(wide_rms_norm(norm, values["x"]), patched)


@pytest.mark.parametrize(("pattern", "function"), [("P11", layer_norm_of), ("P57", wide_layer_norm)])
def test_the_layer_norm_s_terms_are_torch_s_and_the_patch(values: Values, pattern: str, function: Any) -> None:
    stock, patched = both(pattern, values)
    norm = nn.LayerNorm(SIZE, 1e-6).double()
    norm.weight, norm.bias = nn.Parameter(values["weight"]), nn.Parameter(values["weight_bias"])
    assert near(norm(values["x"]), stock)
    assert near(function(norm, values["x"]), patched)


def test_the_rotations_terms_are_the_stock_functions_and_the_patch(values: Values) -> None:
    x, cos, sin = (values[name] for name in ("x", "table_cos", "table_sin"))
    halves, product = both("P14", values)
    assert near(x * cos + rotate_half(x) * sin, halves)
    table = (sin[None], values["table_half_turn"])
    assert near(turned(x[None, None], x[None, None], cos[None], table)[0][0, 0], product)
    pairs, product = both("P18", values)
    assert near(x * cos + rotate_every_two(x[None, None])[0, 0] * sin, pairs)
    table = (sin[None], values["table_pair_turn"])
    assert near(turned(x[None, None], x[None, None], cos[None], table)[0][0, 0], product)


@pytest.mark.parametrize(("pattern", "function"), [("P42", written_out), ("P41", renormalised)])
def test_attention_s_terms_are_torch_s_and_the_patch(values: Values, pattern: str, function: Any) -> None:
    stock, patched = both(pattern, values)
    q, k, v = (values[name][None, None] for name in "qkv")
    mask = torch.where(values["mask"], 0.0, FILL).double()[None, None]
    assert near(F.scaled_dot_product_attention(q, k, v, mask, scale=SCALE)[0, 0], stock)
    assert near(function(nn.Module(), q, k, v, mask, SCALE)[0][0, :, 0], patched)


def test_grouped_attention_s_terms_are_torch_s_and_the_patch() -> None:
    generator = torch.Generator().manual_seed(5)
    draw = lambda heads: torch.randn(heads, SIZE, SIZE, generator=generator, dtype=torch.float64)  # noqa: E731
    values = {"q": draw(4), "k": draw(2), "v": draw(2), "mask": torch.ones(SIZE, SIZE).tril().bool()}
    stock, patched = both("P55", values)
    mask = torch.where(values["mask"], 0.0, FILL).double()[None, None]
    q, k, v = (values[name][None] for name in "qkv")
    wide = [t.repeat_interleave(2, 1) for t in (k, v)]
    assert near(F.scaled_dot_product_attention(q, *wide, mask, scale=SCALE)[0], stock)
    assert near(grouped(nn.Module(), q, k, v, mask, SCALE)[0][0].transpose(0, 1), patched)


def test_padded_heads_terms_are_the_stock_projections_and_the_patched_ones(values: Values) -> None:
    """One head: queries, keys and values by W, back by W_o; the patch pads the rows of W and the columns of W_o."""
    generator = torch.Generator().manual_seed(6)
    weights = {name: torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64) for name in "qkvo"}
    added = torch.where(values["mask"], 0.0, FILL).double()
    projected = {name: values["x"] @ weights[name].T for name in "qkv"}
    stock, patched = both(
        "P20", {**projected, "mask_added": added, "weight": weights["o"].T}, head_dim=SIZE, padded_head_dim=SIZE + 3
    )
    q, k, v = (values["x"] @ pad_rows(weights[name], SIZE, SIZE + 3).T for name in "qkv")
    wide = F.scaled_dot_product_attention(q[None], k[None], v[None], added[None], scale=SCALE)[0]
    assert near(wide @ pad_columns(weights["o"], SIZE, SIZE + 3).T, stock)
    assert near(stock, patched)
