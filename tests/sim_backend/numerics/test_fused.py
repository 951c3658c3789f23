"""Sums, softmax and LayerNorm in one pass have the bits of their steps made one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from sim_backend import numerics
from sim_backend.numerics import Rounding, fused, round_dl16
from sim_backend.numerics.sums import chunked_sum, exact_sum, serial_sum
from sim_backend.numerics.unary import unary

pytestmark = pytest.mark.fact("1.6", "3.4")

SHAPES = [(1, 1), (3, 63), (5, 64), (2, 3, 65), (4, 300), (17, 200), (700, 64)]


@pytest.fixture(params=list(Rounding), ids=lambda r: r.name.lower())
def rounding(request: pytest.FixtureRequest) -> Iterator[Rounding]:
    numerics.set_op_rounding(request.param)
    yield request.param
    numerics.set_op_rounding(Rounding.NEAREST_UP)


def values(*shape: int, scale: float = 1.0) -> Tensor:
    return round_dl16(torch.randn(shape, generator=torch.Generator().manual_seed(5)) * scale)


def chunked(x: Tensor, chunk: int) -> Tensor:
    """The definition: lanes pairwise in a chunk, then the chunks in turn."""
    lanes = torch.nn.functional.pad(x, (0, -x.shape[-1] % chunk)).unflatten(-1, (-1, chunk))
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = round_dl16(lanes[..., :half] + lanes[..., half:])
    return serial(lanes[..., 0])


def serial(x: Tensor) -> Tensor:
    total = x[..., 0]
    for i in range(1, x.shape[-1]):
        total = round_dl16(total + x[..., i])
    return total[..., None]


SUMS: dict[tuple[str, int], Callable[[Tensor], Tensor]] = {
    ("chunked", 64): lambda x: chunked(x, 64),
    ("chunked", 8): lambda x: chunked(x, 8),
    ("serial", 64): serial,
    ("fp32", 64): lambda x: round_dl16(x.sum(-1, keepdim=True)),
}


def same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(nan=3.5), b.nan_to_num(nan=3.5))


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_have_the_bits_of_their_definition(shape: tuple[int, ...], rounding: Rounding) -> None:
    x = values(*shape, scale=20)
    assert same(chunked_sum(x, 1, 64), chunked(x, 64))
    assert same(chunked_sum(x, 1, 16), chunked(x, 16))
    assert same(serial_sum(x, 1), serial(x))


def test_sums_over_several_dimensions_views_and_nothing() -> None:
    x = values(4, 6, 10)
    assert same(chunked_sum(x, 2, 64), chunked(x.flatten(1), 64)[..., None])
    turned = x.permute(2, 0, 1)
    assert same(serial_sum(turned, 1), serial(turned.contiguous()))
    assert same(chunked_sum(x[:, :0], 2, 64), torch.zeros(4, 1, 1))
    assert same(exact_sum(x, 3), round_dl16(x.sum()).view(1, 1, 1))


@pytest.mark.parametrize("chunk", [3, 2048, -1])
def test_a_chunk_is_a_power_of_two_up_to_1024(chunk: int) -> None:
    with pytest.raises(ValueError, match="the chunk must be 0 or a power of two up to 1024"):
        chunked_sum(values(2, 8), 1, chunk)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("policy", "chunk"), SUMS)
def test_softmax_has_the_bits_of_its_steps(policy: str, chunk: int, shape: tuple[int, ...], rounding: Rounding) -> None:
    x = values(*shape, scale=4)
    exponentials = unary("exp", round_dl16(x - x.amax(-1, keepdim=True)))
    expected = round_dl16(exponentials / SUMS[policy, chunk](exponentials))
    assert same(fused.softmax(x, policy, chunk), expected)


def test_a_row_with_nan_is_nan_in_softmax_and_the_others_are_not() -> None:
    x = values(3, 70)
    x[1, 5] = torch.nan
    assert fused.softmax(x, "chunked", 64).isnan().all(-1).tolist() == [False, True, False]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("policy", "chunk"), SUMS)
@pytest.mark.parametrize("affine", ["weight and bias", "weight", "none"])
def test_layer_norm_has_the_bits_of_its_steps(
    affine: str, policy: str, chunk: int, shape: tuple[int, ...], rounding: Rounding
) -> None:
    x, k = values(*shape, scale=3), shape[-1]
    weight = values(k) if "weight" in affine else None
    bias = values(k, scale=2) if "bias" in affine else None
    mean, square = (round_dl16(SUMS[policy, chunk](v) * (1.0 / k)) for v in (x, x * x))
    scale = round_dl16(torch.rsqrt(square - mean * mean + 1e-5))
    normal = (x - mean) * scale
    normal = normal if weight is None else normal * weight
    expected = round_dl16(normal if bias is None else normal + bias)
    assert same(fused.layer_norm(x, weight, bias, 1e-5, policy, chunk), expected)


@pytest.mark.fact("E-14")
def test_a_row_of_nearly_one_value_can_have_a_negative_variance() -> None:
    rows = round_dl16(torch.linspace(50, 150, 99))[:, None] * torch.ones(64)
    rows[:, ::2] = round_dl16(rows[:, ::2] * 1.004)
    spoiled = fused.layer_norm(rows, None, None, 1e-5, "chunked", 64).isnan().any(-1)
    assert spoiled.any()
    assert fused.layer_norm(rows, None, None, 1e-5, "chunked", 64, clamped=True).isfinite().all()
    assert fused.layer_norm(values(99, 64), None, None, 1e-5, "chunked", 64).isfinite().all()
