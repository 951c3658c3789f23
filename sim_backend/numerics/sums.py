"""DL16 sums in the order of an accumulation policy, every partial sum rounded (facts 1.6, 6.7).

Operands are float32 tensors on the DL16 grid; the sum runs over their last `reduced` dimensions, which stay as 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from sim_backend.numerics import round_dl16_

Sum = Callable[[torch.Tensor, int], torch.Tensor]


def chunked_sum(value: torch.Tensor, reduced: int, chunk: int) -> torch.Tensor:
    """The order since 2026-05-26: lanes of one chunk are added pairwise, then the chunks in turn.

    The order inside a chunk is [I].
    """
    rows = _rows(value, reduced)
    if pad := -rows.shape[-1] % chunk:
        rows = torch.nn.functional.pad(rows, (0, pad))
    lanes = rows.unflatten(-1, (-1, chunk))
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = round_dl16_(lanes[..., :half] + lanes[..., half:])
    total = lanes[..., 0, 0].clone()
    for i in range(1, lanes.shape[-2]):
        total = round_dl16_(total + lanes[..., i, 0])
    return total.reshape(*total.shape, *([1] * reduced))


def serial_sum(value: torch.Tensor, reduced: int) -> torch.Tensor:
    """The order before 2026-05-26: element by element."""
    rows = _rows(value, reduced)
    total = rows[..., 0].clone()
    for i in range(1, rows.shape[-1]):
        total = round_dl16_(total + rows[..., i])
    return total.reshape(*total.shape, *([1] * reduced))


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


def _rows(value: torch.Tensor, reduced: int) -> torch.Tensor:
    return value.reshape(*value.shape[: value.dim() - reduced], -1)
