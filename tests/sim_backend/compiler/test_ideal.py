"""The ideal profile equals the CPU to 1e-6 in fp32, so what differs on another profile is that profile's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, ModernBertConfig, Qwen3Config
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.modernbert.modeling_modernbert import ModernBertMLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

from sim_backend.device import eager
from sim_backend.errata.eager import apply
from sim_backend.profiles import load_profile

pytestmark = pytest.mark.fact("1.6")

BOUND = {"rtol": 1e-6, "atol": 1e-6}
GENERATOR = torch.Generator().manual_seed(21)
A, B = (torch.randn(6, 100, generator=GENERATOR) for _ in range(2))
P = A.abs() + 0.1
W = torch.randn(48, 100, generator=GENERATOR) / 10
Q = torch.randn(2, 4, 24, 32, generator=GENERATOR)
I = torch.tensor([[0, 3], [47, 7]])  # noqa: E741
Operation = Callable[..., Tensor]

OPERATIONS: dict[str, tuple[tuple[Tensor, ...], dict[str, Operation]]] = {
    "pointwise": (
        (A, B, P),
        {
            "add with alpha": lambda a, b, p: torch.add(a, b, alpha=0.3),
            "rsub": lambda a, b, p: 0.1 - a,
            "mul": lambda a, b, p: a * b,
            "div": lambda a, b, p: a / p,
            "div by a constant": lambda a, b, p: a / 0.3,
            "exp": lambda a, b, p: a.exp(),
            "log": lambda a, b, p: p.log(),
            "sqrt": lambda a, b, p: p.sqrt(),
            "rsqrt": lambda a, b, p: p.rsqrt(),
            "reciprocal": lambda a, b, p: p.reciprocal(),
            "relu": lambda a, b, p: a.relu(),
            "sigmoid": lambda a, b, p: a.sigmoid(),
            "tanh": lambda a, b, p: a.tanh(),
            "silu": lambda a, b, p: F.silu(a),
            "gelu": lambda a, b, p: F.gelu(a),
            "gelu by tanh": lambda a, b, p: F.gelu(a, approximate="tanh"),
            "mish": lambda a, b, p: F.mish(a),
            "softplus": lambda a, b, p: F.softplus(a, 2.0, 10.0),
            "erf": lambda a, b, p: a.erf(),
            "sin": lambda a, b, p: a.sin(),
            "log1p": lambda a, b, p: p.log1p(),
            "floor": lambda a, b, p: a.floor(),
            "ceil": lambda a, b, p: a.ceil(),
            "round": lambda a, b, p: a.round(),
            "sign": lambda a, b, p: a.sign(),
            "square": lambda a, b, p: a**2,
            "cube": lambda a, b, p: a**3,
            "a power": lambda a, b, p: p**-0.7,
            "clamp": lambda a, b, p: a.clamp(-0.3, 0.7),
            "clamp_min": lambda a, b, p: a.clamp_min(0.1),
            "maximum": lambda a, b, p: torch.maximum(a, b),
            "where": lambda a, b, p: torch.where(a > b, a, b),
            "masked_fill": lambda a, b, p: a.masked_fill(a > 0, -4.1),
            "lerp": lambda a, b, p: torch.lerp(a, b, 0.3),
            "addcmul": lambda a, b, p: torch.addcmul(a, b, p, value=0.3),
        },
    ),
    "reductions": (
        (A,),
        {
            "sum": lambda a: a.sum(),
            "sum of columns": lambda a: a.sum(0),
            "mean": lambda a: a.mean(-1),
            "var": lambda a: a.var(-1),
            "std": lambda a: a.std(0),
            "amax": lambda a: a.amax(-1),
            "amin": lambda a: a.amin(0),
            "prod": lambda a: (a * 0.1 + 1).prod(-1),
            "cumsum": lambda a: a.cumsum(-1),
            "softmax": lambda a: a.softmax(-1),
            "log_softmax": lambda a: a.log_softmax(0),
            "logsumexp": lambda a: a.logsumexp(-1),
            "vector_norm": lambda a: torch.linalg.vector_norm(a, dim=-1),
            "norm of order 1": lambda a: torch.linalg.vector_norm(a, 1, dim=-1),
            "normalize": lambda a: F.normalize(a, dim=-1),
            "layer_norm": lambda a: F.layer_norm(a, a.shape[-1:], a[0], a[1]),
            "rms_norm": lambda a: F.rms_norm(a, a.shape[-1:], a[0], 1e-6),
        },
    ),
    "products and moves": (
        (A, W, Q, I),
        {
            "mm": lambda a, w, q, i: a @ w.t(),
            "linear": lambda a, w, q, i: F.linear(a, w, w[:, 0]),
            "addmm with factors": lambda a, w, q, i: torch.addmm(w[:, 1], a, w.t(), alpha=0.3, beta=2),
            "bmm": lambda a, w, q, i: torch.bmm(q[0], q[1].mT),
            "attention": lambda a, w, q, i: F.scaled_dot_product_attention(q, q, q),
            "causal attention": lambda a, w, q, i: F.scaled_dot_product_attention(q, q, q, is_causal=True),
            "embedding": lambda a, w, q, i: F.embedding(i, w),
            "gather": lambda a, w, q, i: w.gather(0, i),
            "cat": lambda a, w, q, i: torch.cat([a, w]),
            "pad": lambda a, w, q, i: F.pad(a, (3, 1)),
            "tril": lambda a, w, q, i: q.tril(),
            "roll": lambda a, w, q, i: a.roll(2, -1),
            "transpose": lambda a, w, q, i: q.transpose(1, 2).reshape(2, 24, -1) + 1,
            "topk": lambda a, w, q, i: a.topk(3).values,
        },
    ),
}


@pytest.fixture
def ideal(use: Any) -> Any:
    profile = use("profile-ideal")
    eager.install(profile, apply)
    yield profile
    eager.install(load_profile(), apply)


@pytest.mark.parametrize("form", ["eager", "compiled"])
@pytest.mark.parametrize("group", OPERATIONS)
def test_operations_equal_the_cpu(group: str, form: str, ideal: Any) -> None:
    host, operations = OPERATIONS[group]

    def run(*args: Tensor) -> tuple[Tensor, ...]:
        return tuple(operation(*args) for operation in operations.values())

    function = torch.compile(run, fullgraph=True, dynamic=False) if form == "compiled" else run
    results = function(*(t.to("spyre") for t in host))
    for name, result, expected in zip(operations, results, run(*host), strict=True):
        torch.testing.assert_close(result.cpu(), expected, **BOUND, msg=lambda m, n=name: f"{n}: {m}")


WIDTH, LENGTH, HEAD = 128, 48, 32


class Bert(torch.nn.Module):
    """A post-norm encoder block."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(hidden_size=WIDTH, num_attention_heads=4, intermediate_size=256)
        config._attn_implementation = "sdpa"
        self.layer = BertLayer(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Any:
        return self.layer(x)


class Qwen3(torch.nn.Module):
    """A causal decoder block with rotary embeddings and grouped queries."""

    def __init__(self) -> None:
        super().__init__()
        config = Qwen3Config(
            hidden_size=WIDTH, num_attention_heads=4, num_key_value_heads=2, head_dim=HEAD, intermediate_size=256
        )
        config._attn_implementation = "sdpa"
        self.layer = Qwen3DecoderLayer(config, 0)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Any:
        return self.layer(x, position_embeddings=(cos, sin))


class Gated(torch.nn.Module):
    """A pre-norm block with a gated feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH, bias=False)
        self.mlp = ModernBertMLP(ModernBertConfig(hidden_size=WIDTH, intermediate_size=256))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Any:
        return x + self.mlp(self.norm(x))


@pytest.mark.parametrize("family", [Bert, Qwen3, Gated])
def test_blocks_equal_the_cpu(family: type[torch.nn.Module], ideal: Any) -> None:
    torch.manual_seed(0)
    block = family().eval().requires_grad_(False)
    angles = torch.outer(torch.arange(LENGTH).float(), 1e4 ** (-torch.arange(0, HEAD, 2) / HEAD)).repeat(1, 2)[None]
    inputs = torch.randn(2, LENGTH, WIDTH, generator=GENERATOR), angles.cos(), angles.sin()
    compiled = torch.compile(copy.deepcopy(block).to("spyre"), fullgraph=True, dynamic=False)
    result, expected = compiled(*(t.to("spyre") for t in inputs)), block(*inputs)
    if isinstance(expected, tuple):
        result, expected = result[0], expected[0]
    torch.testing.assert_close(result.cpu(), expected, **BOUND)
