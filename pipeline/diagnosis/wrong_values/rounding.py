"""What 16-bit rounding alone does to a computation: the same operations on the CPU, each result rounded.

The device keeps 16-bit floats with nine bits of fraction. Which way a copy to the device rounds depends on its
compiler's version, so both ways are run and the larger error is what rounding explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

UNIT = 2.0**-10
"""Half the distance of two neighbouring 16-bit values, relative to the value: the largest error of one rounding."""

_DROPPED = 23 - 9  # fraction bits of fp32 that the 16-bit format does not have
_MASK = (1 << _DROPPED) - 1

aten = torch.ops.aten
_INNER_STEPS = (
    aten.native_layer_norm.default,
    aten._softmax.default,
    aten._safe_softmax.default,
    aten.mean.dim,
    aten.silu.default,
)
"""Operations that the device computes in several steps, each of them rounded."""


class Mode(StrEnum):
    """How a value between two 16-bit values is rounded."""

    NEAREST = "nearest"
    TRUNCATE = "truncate"


def rounded(x: torch.Tensor, mode: Mode = Mode.NEAREST) -> torch.Tensor:
    """An fp32 tensor on the grid of the 16-bit format, any exponent; other dtypes as they are."""
    if x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    if mode is Mode.NEAREST:
        bits = bits + ((bits >> _DROPPED) & 1) + (_MASK >> 1)
    return torch.where(torch.isfinite(x), (bits & ~_MASK).view(torch.float32), x)


class _Rounding(TorchDispatchMode):
    """Rounds the result of every operation that computes; views and writes in place are left alone."""

    def __init__(self, mode: Mode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _INNER_STEPS:
            with self:
                return torch._decomp.decomposition_table[func](*args, **kwargs)
        result = func(*args, **kwargs)
        if func.is_view or func._schema.is_mutable:
            return result
        return pytree.tree_map_only(torch.Tensor, lambda t: rounded(t, self.mode), result)


@contextmanager
def _rounding(mode: Mode) -> Iterator[None]:
    with sdpa_kernel(SDPBackend.MATH), _Rounding(mode):
        yield


def ideal_run(function: Callable[..., Any], values: Any, mode: Mode = Mode.NEAREST) -> Any:
    """`function(*values)` on the CPU with 16-bit inputs and every result rounded to 16 bits, sums kept in fp32."""
    narrowed = pytree.tree_map_only(torch.Tensor, lambda t: _like(t, rounded(t, mode)), values)
    with torch.no_grad(), _rounding(mode):
        return function(*narrowed)


def _like(strided: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`values` with the strides of `strided` where those are dense."""
    if values is strided or not is_dense(strided):
        return values
    made = torch.empty_strided(strided.shape, strided.stride(), dtype=values.dtype)
    return made.copy_(values)


def is_dense(value: torch.Tensor) -> bool:
    """False for an expanded tensor: several of its elements are one in memory."""
    return all(s > 0 for s, n in zip(value.stride(), value.shape, strict=True) if n > 1)
