"""DL16 sums in the order of an accumulation policy, every partial sum rounded (facts 1.6, 6.7).

Operands are float32 tensors on the DL16 grid; the sum runs over their last `reduced` dimensions, which stay as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from sim_backend.numerics import _ext, round_dl16_

CHUNK_OF_SERIAL = 0  # what the C++ part takes for "element by element"
Sum = Callable[[torch.Tensor, int], torch.Tensor]


def chunked_sum(value: torch.Tensor, reduced: int, chunk: int) -> torch.Tensor:
    """The order since 2026-05-26: lanes i and i + half of a chunk are added until one is left, then chunk by chunk.

    The order inside a chunk is [I]. `chunk` is a power of two up to 1024; ValueError otherwise.
    """
    return _rows_summed(value, reduced, chunk)


def serial_sum(value: torch.Tensor, reduced: int) -> torch.Tensor:
    """The order before 2026-05-26: element by element."""
    return _rows_summed(value, reduced, CHUNK_OF_SERIAL)


def exact_sum(value: torch.Tensor, reduced: int) -> torch.Tensor:
    """The sum in fp32, rounded once."""
    return round_dl16_(plain_sum(value, reduced))


def plain_sum(value: torch.Tensor, reduced: int) -> torch.Tensor:
    """The sum in fp32, not rounded: what fp32 operands get."""
    return value.sum(tuple(range(value.dim() - reduced, value.dim())), keepdim=True)


def sum_by(policy: str, chunk: int) -> Sum:
    """The DL16 sum of an accumulation policy: chunked, serial or fp32."""
    if policy == "chunked":
        return lambda value, reduced: chunked_sum(value, reduced, chunk)
    return serial_sum if policy == "serial" else exact_sum


def _rows_summed(value: torch.Tensor, reduced: int, chunk: int) -> torch.Tensor:
    kept = value.shape[: value.dim() - reduced]
    sizes = (*kept, *([1] * reduced))
    if not value.numel():
        return value.new_zeros(sizes)
    total: torch.Tensor = _ext().sum_rows(value.reshape(math.prod(kept), -1), chunk)
    return total.view(sizes)
