"""Row by row: how far two results are apart, and how far rounding alone would set them apart."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.verification.equivalence.limits import limits

ROUNDING = 16.0
"""How many times the effect of four units in the last place of the input a reordering of the block may have."""


class RowFault(NamedTuple):
    """A row where the patched result is further from stock than allowed."""

    batch: int
    token: int
    error: float
    stock: float
    patched: float


class Rows(NamedTuple):
    """The comparison of real tokens: how many were compared, the largest error, and the worst row that is too far."""

    compared: int
    error: float
    fault: RowFault | None


def compare_rows(stock: Tensor, patched: Tensor, real: Tensor, moved: Tensor | None, bound: float | None) -> Rows:
    """`stock` and `patched` [batch, length, width] where `real` [batch, length]; errors relative to a row's largest.

    `moved` is the stock result on inputs moved by rounding: the stock code promises no more than that. With a `bound`
    that is the limit. A row where stock is not finite is not compared; where only the patch is not, the error is inf.
    """
    if stock.shape != patched.shape:
        return Rows(int(real.sum()), float("inf"), RowFault(0, 0, float("inf"), float("nan"), float("nan")))
    counted = real & stock.isfinite().all(-1)
    size = stock.abs().amax(-1).clamp(min=torch.finfo(torch.float64).tiny)
    difference = (patched - stock).abs().nan_to_num(nan=torch.inf)
    error = torch.where(counted, difference.amax(-1) / size, 0.0)
    allowed = torch.full_like(error, limits().relative)
    if moved is not None:
        allowed = allowed + ROUNDING * (moved - stock).abs().nan_to_num(nan=0.0).amax(-1) / size
    allowed = torch.maximum(allowed, torch.tensor(bound or 0.0, dtype=torch.float64))
    return Rows(int(counted.sum()), float(error.max()), _worst(error, allowed, counted, stock, patched, difference))


def _worst(
    error: Tensor, allowed: Tensor, counted: Tensor, stock: Tensor, patched: Tensor, difference: Tensor
) -> RowFault | None:
    excess = torch.where(counted, error - allowed, -1.0)
    if not bool((excess > 0).any()):
        return None
    row, token = divmod(int(excess.argmax()), error.shape[1])
    channel = int(difference[row, token].argmax())
    return RowFault(
        row, token, float(error[row, token]), float(stock[row, token, channel]), float(patched[row, token, channel])
    )
