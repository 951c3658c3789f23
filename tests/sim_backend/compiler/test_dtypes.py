"""What computes on which dtype, and which conversions the device makes (facts 3.5, 3.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError
from torch.nn import functional as F

from sim_backend.compiler import runtime
from sim_backend.errors import Unsupported

X = torch.linspace(0.25, 3, 8 * 64).reshape(8, 64)
Y = torch.linspace(2, 0.5, 8 * 64).reshape(8, 64)

FP32: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "where3": lambda x, y: torch.where(x > y, x, y),
    "realdiv": lambda x, y: x / y,
    "relufwd": lambda x, y: torch.relu(x),
    "reciprocal": lambda x, y: x.reciprocal(),
    "mean": lambda x, y: x.mean(-1),
    "sum": lambda x, y: x.sum(-1),
    "max": lambda x, y: x.amax(-1),
    "min": lambda x, y: x.amin(-1),
    "layernormnorm": lambda x, y: F.layer_norm(x, (64,)),
    "abs": lambda x, y: x.abs(),
    "neg": lambda x, y: -x,
    "exp": lambda x, y: x.exp(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x),
    "sqrt": lambda x, y: x.sqrt(),
    "rsqrt": lambda x, y: x.rsqrt(),
    "floor": lambda x, y: x.floor(),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clip": lambda x, y: x.clamp(0.5, 2),
    "prod": lambda x, y: x.prod(0),
}


@pytest.mark.fact("3.5")
@pytest.mark.parametrize("name", FP32)
def test_fp32_computes_in_fp32(name: str, use: Any, run: Callable[..., Any]) -> None:
    torch.testing.assert_close(run(FP32[name], X, Y), FP32[name](X, Y), rtol=1e-5, atol=1e-6)


REFUSED: dict[str, Callable[..., torch.Tensor]] = {
    "log": lambda x, y: x.log(),
    "tanh": lambda x, y: x.tanh(),
    "gelufwd": lambda x, y: F.gelu(x),
    "softplus": lambda x, y: F.softplus(x),
    "batchmatmul": lambda x, y: x @ y.t(),
}


@pytest.mark.fact("3.5", "3.7")
@pytest.mark.parametrize("name", REFUSED)
def test_an_fp32_operand_of_another_operation_is_refused_by_name(name: str, use: Any, run: Callable[..., Any]) -> None:
    with pytest.raises(InductorError, match=rf"Spyre backend does not support: {name} on DataFormats\.IEEE_FP32") as e:
        run(REFUSED[name], X, Y)
    assert isinstance(e.value.inner_exception, Unsupported)
    assert run(REFUSED[name], X.half(), Y.half()).isfinite().all()


MADE = [
    ("float16", "bfloat16"), ("bfloat16", "float16"), ("float16", "float32"), ("bfloat16", "float32"),
    ("float32", "float16"), ("float32", "bfloat16"),
]  # fmt: skip


def cast(target: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: (x * 2).to(getattr(torch, target))


@pytest.mark.fact("3.6", "1.6")
@pytest.mark.parametrize(("source", "target"), MADE)
def test_a_conversion_of_the_table_is_made_on_the_device(
    source: str, target: str, use: Any, run: Callable[..., Any]
) -> None:
    result = run(cast(target), X.to(getattr(torch, source)))
    torch.testing.assert_close(result, X * 2, rtol=0.01, atol=0)
    assert runtime.AUDITS[-1]["fallbacks"] == []
    is_identity = "float32" not in (source, target)
    conversions = runtime.AUDITS[-1]["kernels"][0]["conversions"]
    assert conversions == {} if is_identity else conversions == {f"{source}>{target}": 1}


@pytest.mark.fact("3.6", "3.7")
@pytest.mark.parametrize(
    ("source", "target", "profile"),
    [
        ("float16", "int32", "profile-2026-08"),
        ("float32", "int64", "profile-2026-08"),
        ("float16", "float32", "profile-2026-04"),
    ],
)
def test_another_conversion_is_refused(
    source: str, target: str, profile: str, use: Any, run: Callable[..., Any]
) -> None:
    use(profile)
    with pytest.raises(InductorError, match=rf"type conversion from torch\.{source} to torch\.{target}"):
        run(cast(target), X.to(getattr(torch, source)))


@pytest.mark.fact("3.5")
def test_integers_are_moved_and_compared_and_not_computed_on_otherwise(use: Any, run: Callable[..., Any]) -> None:
    ids = torch.arange(8 * 64).reshape(8, 64)
    assert torch.equal(run(lambda i: torch.cat([i, i]), ids), torch.cat([ids, ids]))
    with pytest.raises(InductorError, match=r"neg on DataFormats\.IEEE_INT32"):
        run(lambda i: -i, ids)
