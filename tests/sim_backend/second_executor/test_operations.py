"""Every operation of a table agrees with the second executor to one DL16 step, on random values and on edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from second_executor.arithmetic import Accumulator, constant, rounded, ulps
from second_executor.capture import capture, compare
from torch import Tensor
from torch.nn import functional as F

from sim_backend import numerics
from sim_backend.device import ext

pytestmark = pytest.mark.fact("1.6", "3.4")

SEED = 20261129
ROWS, COLUMNS = 6, 192
Operation = Callable[..., Tensor]


def normal(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    """Values as they occur in models, on the device."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale).half().to("spyre")


def edges(seed: int, *shape: int) -> Tensor:
    """Codes of every exponent, with both zeros, the extremes and NaN among them, on the device."""
    codes = torch.randint(-(2**15), 2**15, shape, generator=torch.Generator().manual_seed(seed)).to(torch.int16)
    special = torch.tensor([0, -0x8000, 1, -0x7FFF, 0x7FFE, -2, 0x7FFF, -1, 0x3E00, 0x5DFF, 0x6FFF], dtype=torch.int16)
    codes.view(-1)[: len(special)] = special
    return ext.from_codes(codes, torch.float16)


POINTWISE: dict[str, Operation] = {
    "add": lambda a, b, p: a + b,
    "add with alpha": lambda a, b, p: torch.add(a, b, alpha=0.3),
    "add a constant": lambda a, b, p: a + 0.1,
    "sub": lambda a, b, p: a - b,
    "sub with alpha": lambda a, b, p: torch.sub(a, b, alpha=2.3),
    "sub from a constant": lambda a, b, p: 0.1 - a,
    "mul": lambda a, b, p: a * b,
    "mul by a constant": lambda a, b, p: a * 0.1,
    "div": lambda a, b, p: a / b,
    "div by a constant": lambda a, b, p: a / 0.3,
    "a constant over": lambda a, b, p: 0.3 / p,
    "square": lambda a, b, p: a**2,
    "neg": lambda a, b, p: -a,
    "abs": lambda a, b, p: a.abs(),
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
    "softplus": lambda a, b, p: F.softplus(a),
    "softplus with beta": lambda a, b, p: F.softplus(a, 2.0, 10.0),
    "floor": lambda a, b, p: a.floor(),
    "ceil": lambda a, b, p: a.ceil(),
    "sign": lambda a, b, p: a.sign(),
    "maximum": lambda a, b, p: torch.maximum(a, b),
    "minimum": lambda a, b, p: torch.minimum(a, b),
    "clamp": lambda a, b, p: a.clamp(-0.3, 0.7),
    "clamp_min": lambda a, b, p: a.clamp_min(0.1),
    "clamp_max": lambda a, b, p: a.clamp_max(0.1),
    "where": lambda a, b, p: torch.where(a > b, a, b),
    "where equal": lambda a, b, p: torch.where(a == b, a, b),
    "where above a constant": lambda a, b, p: torch.where(a >= 0.1, a, b),
    "masked_fill": lambda a, b, p: a.masked_fill(a < 0, -4.1),
    "masks joined": lambda a, b, p: torch.where((a > 0).logical_and(b > 0).logical_or(a < b), a, b),
    "mask inverted": lambda a, b, p: torch.where((a > 0).logical_not(), a, b),
    "to fp32": lambda a, b, p: a.float() * 1.0,
    "by way of fp32": lambda a, b, p: (a.float() + 0.1).half(),
}
REDUCTIONS: dict[str, Operation] = {
    "sum of all": lambda a: a.sum(),
    "sum of rows": lambda a: a.sum(-1),
    "sum of columns": lambda a: a.sum(0),
    "mean of rows": lambda a: a.mean(-1, keepdim=True),
    "mean of columns": lambda a: a.mean(0),
    "amax": lambda a: a.amax(-1),
    "amin": lambda a: a.amin(-1),
    "prod of columns": lambda a: a.prod(0),
    "softmax": lambda a: a.softmax(-1),
    "softmax of columns": lambda a: a.softmax(0),
    "log_softmax": lambda a: a.log_softmax(-1),
    "vector_norm": lambda a: torch.linalg.vector_norm(a, dim=-1),
    "normalize": lambda a: F.normalize(a, dim=-1),
    "layer_norm": lambda a: F.layer_norm(a, a.shape[-1:], a[0], a[1]),
    "layer_norm without weight": lambda a: F.layer_norm(a, a.shape[-1:]),
    "rms_norm": lambda a: F.rms_norm(a, a.shape[-1:], a[0]),
}
PRODUCTS: dict[str, Operation] = {
    "mm": lambda a, w, c, q: a @ w.t(),
    "linear": lambda a, w, c, q: F.linear(a, w, c),
    "linear of three dimensions": lambda a, w, c, q: F.linear(a[None], w, c),
    "addmm with factors": lambda a, w, c, q: torch.addmm(c, a, w.t(), alpha=0.3, beta=2),
    "bmm": lambda a, w, c, q: torch.bmm(q[0], q[1].mT),
    "attention": lambda a, w, c, q: F.scaled_dot_product_attention(q, q, q),
    "causal attention": lambda a, w, c, q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
    "attention with a mask": lambda a, w, c, q: F.scaled_dot_product_attention(q, q, q, q[:, :1, :, :].mT[:, :, :64]),
}
MOVES: dict[str, Operation] = {
    "cat": lambda a, w, i: torch.cat([a, a]),
    "stack": lambda a, w, i: torch.stack([a, a]),
    "pad": lambda a, w, i: F.pad(a, (64, 0)),
    "flip": lambda a, w, i: a.flip(0),
    "embedding": lambda a, w, i: F.embedding(i, w),
    "index_select": lambda a, w, i: w.index_select(0, i),
    "expand": lambda a, w, i: a[:1].expand(6, COLUMNS) + a,
    "transpose": lambda a, w, i: a.t().contiguous(),
    "triu": lambda a, w, i: torch.triu(a),
}
COUNT = 60  # at least so many operations are compared


def groups() -> dict[str, tuple[dict[str, Operation], Callable[[], tuple[Tensor, ...]]]]:
    near = (ROWS, COLUMNS)
    return {
        "pointwise": (POINTWISE, lambda: (normal(1, *near), normal(2, *near), normal(3, *near).abs() + 0.1)),
        "pointwise on edges": (
            POINTWISE,
            lambda: (edges(SEED, 40, 128), edges(SEED + 1, 40, 128), edges(SEED, 40, 128)),
        ),
        "reductions": (REDUCTIONS, lambda: (normal(4, *near),)),
        "reductions of long rows": (REDUCTIONS, lambda: (normal(5, 3, 1088, scale=30.0),)),
        "products": (
            PRODUCTS,
            lambda: (normal(6, *near), normal(7, 64, COLUMNS, scale=0.1), normal(8, 64), normal(9, 2, 2, 64, 64)),
        ),
        "moves": (MOVES, lambda: (normal(10, *near), normal(11, 32, 64), torch.tensor([5, 0, 31]).to("spyre"))),
    }


def together(operations: dict[str, Operation]) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *args: tuple(operation(*args) for operation in operations.values())


def test_the_table_is_long_enough() -> None:
    assert sum(map(len, (POINTWISE, REDUCTIONS, PRODUCTS, MOVES))) >= COUNT


@pytest.mark.parametrize("group", groups())
def test_an_operation_is_within_one_step_of_the_second_executor(group: str, without_errata: Any) -> None:
    without_errata()
    operations, inputs = groups()[group]
    differences = compare(capture(together(operations), *inputs()))
    assert len(differences) >= len(operations)
    assert [d for d in differences if d.steps > 1] == []


@pytest.mark.parametrize(
    "overrides",
    [
        {"numerics.reduction_accumulation": "serial"},
        {"numerics.reduction_accumulation": "fp32"},
        {"numerics.op_rounding": "nearest_even"},
        {"numerics.op_rounding": "truncate"},
    ],
    ids=lambda o: next(iter(o.values())),
)
def test_reductions_follow_the_policy_of_the_profile(overrides: dict[str, Any], without_errata: Any) -> None:
    without_errata("profile-2026-08", overrides)
    differences = compare(capture(together(REDUCTIONS), normal(4, ROWS, COLUMNS)))
    assert [d for d in differences if d.steps > 1] == []


def test_a_result_two_steps_away_is_reported(without_errata: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: a sum in another order is found."""
    without_errata()
    monkeypatch.setattr(Accumulator, "_total", lambda self, elements: rounded(torch.stack(elements, -1).sum(-1)))
    differences = compare(capture(lambda a: a.sum(-1), normal(5, 3, 1088, scale=30.0)))
    assert [d.operation for d in differences if d.steps > 1] == ["aten.sum.dim_IntList"]


def test_constants_agree_with_the_encoder_of_the_compiler() -> None:
    numbers = [0.0, 0.1, -1 / 3, 1e-5, 65504.0, 3e38, -float("inf"), 4.2909e9]
    assert [constant(n) for n in numbers] == [numerics.round_constant(n) for n in numbers]


def test_steps_are_counted_across_zero_and_between_neighbours() -> None:
    a = torch.tensor([1.0, 1.0, 0.0, -(2.0**-31) * (1 + 1 / 512), float("nan"), 1.0])
    b = torch.tensor([1.0, 1 + 1 / 512, -0.0, 2.0**-31 * (1 + 1 / 512), float("nan"), float("nan")])
    assert ulps(a, b).tolist() == [0, 1, 0, 2, 0, 1 << 16]
