"""Sums, differences and products in one pass have the bits of the float32 operation rounded afterwards."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from sim_backend import numerics
from sim_backend.numerics import Rounding, pairs, round_dl16

pytestmark = pytest.mark.fact("1.6")

OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
# (sizes of a, sizes of b): equal, a row, a column, one value, both broadcast, nothing, longer than a thread's share
BROADCAST = [
    ((3, 65), (3, 65)),
    ((2, 3, 64), (64,)),
    ((2, 3, 64), (3, 1)),
    ((4, 7), ()),
    ((5, 1, 7), (3, 1)),
    ((0, 4), (4,)),
    ((1, 1), (1,)),
    ((70, 1000), (1000,)),
]


@pytest.fixture(params=list(Rounding), ids=lambda r: r.name.lower())
def rounding(request: pytest.FixtureRequest) -> Iterator[Rounding]:
    numerics.set_op_rounding(request.param)
    yield request.param
    numerics.set_op_rounding(Rounding.NEAREST_UP)


def values(*shape: int, seed: int = 0) -> Tensor:
    return round_dl16(torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 40)


def same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.isnan().equal(b.isnan()) and a.nan_to_num().equal(b.nan_to_num())


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("left", "right"), BROADCAST)
def test_a_pair_is_the_float32_operation_rounded_once(
    name: str, left: tuple[int, ...], right: tuple[int, ...], rounding: Rounding
) -> None:
    a, b = values(*left), values(*right, seed=1)
    one_pass: Callable[[Tensor, Tensor], Tensor] = getattr(pairs, name)
    assert same(one_pass(a, b), round_dl16(OPERATIONS[name](a, b)))
    assert same(one_pass(b, a), round_dl16(OPERATIONS[name](b, a)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_operands_may_have_any_strides(name: str) -> None:
    heads = values(2, 64, 12, 8).permute(0, 2, 1, 3)
    steps = values(2, 12, 64, 16, seed=1)[..., ::2]
    one_pass: Callable[[Tensor, Tensor], Tensor] = getattr(pairs, name)
    result = one_pass(heads, steps)
    assert result.is_contiguous()
    assert same(result, round_dl16(OPERATIONS[name](heads, steps).contiguous()))
    assert same(one_pass(heads, heads.expand(2, 12, 64, 8)[:, :1]), round_dl16(OPERATIONS[name](heads, heads[:, :1])))


def test_specials_and_what_lies_beyond_the_range() -> None:
    a = torch.tensor([torch.nan, 8e9, -8e9, 0.0, -0.0])
    assert same(pairs.add(a, a), round_dl16(a + a))
    assert pairs.add(a, a).isnan().tolist() == [True, True, True, False, False]
    assert pairs.mul(a, torch.tensor(-1.0)).signbit().tolist()[3:] == [True, False]


def test_other_dtypes_are_read_as_float32_and_sizes_must_broadcast() -> None:
    assert pairs.mul(torch.tensor([1.5]), torch.tensor(3)).tolist() == [4.5]
    with pytest.raises(RuntimeError, match="must match the size"):
        pairs.add(values(3), values(4))
