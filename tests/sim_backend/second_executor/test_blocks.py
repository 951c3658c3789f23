"""Blocks of three families agree with the second executor to one DL16 step in every operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from second_executor.capture import capture, compare
from transformers import BertConfig, ModernBertConfig, Qwen3Config
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.modernbert.modeling_modernbert import ModernBertMLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

pytestmark = pytest.mark.fact("1.6", "3.4")

LENGTH, WIDTH, HEAD = 64, 128, 64


class Bert(torch.nn.Module):
    """Post-norm, gelu, bidirectional attention with a mask."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(hidden_size=WIDTH, num_attention_heads=WIDTH // HEAD, intermediate_size=256)
        config._attn_implementation = "sdpa"
        self.layer = BertLayer(config)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return first(self.layer(x, mask))


class Qwen3(torch.nn.Module):
    """Pre-norm RMS, rotary embeddings, norms of q and k, grouped queries, causal, gated silu."""

    def __init__(self) -> None:
        super().__init__()
        config = Qwen3Config(
            hidden_size=WIDTH, num_attention_heads=2, num_key_value_heads=1, head_dim=HEAD, intermediate_size=256
        )
        config._attn_implementation = "sdpa"
        self.layer = Qwen3DecoderLayer(config, 0)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return first(self.layer(x, attention_mask=mask, position_embeddings=(cos, sin)))


class Gated(torch.nn.Module):
    """ModernBERT's pre-norm gated MLP after attention of its own form: one product for q, k and v."""

    def __init__(self) -> None:
        super().__init__()
        config = ModernBertConfig(hidden_size=WIDTH, intermediate_size=256, num_attention_heads=WIDTH // HEAD)
        self.before, self.after = (torch.nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False), torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = ModernBertMLP(config)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.before(x)).view(*x.shape[:2], 3, -1, HEAD).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(turned(q, cos, sin), turned(k, cos, sin), v, mask)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.after(x))


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]


def first(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


def inputs() -> tuple[torch.Tensor, ...]:
    x = torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(3))
    angles = torch.outer(torch.arange(LENGTH).float(), 1e4 ** (-torch.arange(0, HEAD, 2) / HEAD)).repeat(1, 2)[None]
    mask = torch.full((LENGTH, LENGTH), -3e4).triu(1).expand(2, 1, LENGTH, LENGTH).clone()
    return x, mask, angles.cos(), angles.sin()


FAMILIES: dict[str, tuple[Callable[[], torch.nn.Module], set[str]]] = {
    "bert": (Bert, {"aten.native_layer_norm.default", "aten.gelu.default", "aten.addmm.default"}),
    "qwen3": (Qwen3, {"aten.rsqrt.default", "aten.silu.default", "aten.cat.default", "aten.neg.default"}),
    "modernbert": (Gated, {"aten.native_layer_norm.default", "aten.gelu.default", "aten.mm.default"}),
}
ATTENTION = "aten._scaled_dot_product_fused_attention_overrideable.default"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_operation_of_a_block_is_within_one_step(family: str, without_errata: Any) -> None:
    without_errata()
    build, expected = FAMILIES[family]
    torch.manual_seed(0)
    block = build().eval().requires_grad_(False).half().to("spyre")
    differences = compare(capture(block, *(t.half().to("spyre") for t in inputs())))
    compared = Counter(d.operation for d in differences)
    assert compared.keys() >= expected | {ATTENTION}
    assert [d for d in differences if d.steps > 1] == []
