"""Softmax and LayerNorm of DL16 rows in one pass: the values of their device operations made one after the other.

Operands are float32 on the DL16 grid and reduced over the last dimension. Accumulation in fp32 is not a device's policy
and takes the plain steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sim_backend.numerics import _ext, op_rounding, round_dl16_
from sim_backend.numerics.sums import CHUNK_OF_SERIAL, sum_by
from sim_backend.numerics.unary import table, unary


def softmax(scores: Tensor, policy: str, chunk: int) -> Tensor:
    """exp(x - max) / sum, rounded after the difference, the exponential, each partial sum and the quotient."""
    if policy == "fp32" or not scores.numel():
        difference = round_dl16_((scores - scores.amax(-1, keepdim=True)).contiguous())
        exponentials = unary("exp", difference)
        return round_dl16_(exponentials / sum_by(policy, chunk)(exponentials, 1))
    rows = scores.reshape(-1, scores.shape[-1])
    size = chunk if policy == "chunked" else CHUNK_OF_SERIAL
    result: Tensor = _ext().softmax_rows(rows, table("exp", op_rounding()), size)
    return result.view(scores.shape)


def layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, policy: str, chunk: int, clamped: bool = False
) -> Tensor:
    """exx2 (mean and E[x²] in one pass), layernormscale, layernormnorm, each rounded once (facts 3.3, 3.4).

    Rows of nearly one value can have a negative variance (E-14), whose root is NaN, unless it is `clamped` to 0.
    """
    if policy == "fp32" or not x.numel():
        total = sum_by(policy, chunk)(torch.stack([x, x * x]), 1)
        mean, square = round_dl16_(total * (1.0 / x.shape[-1]))
        variance = square - mean * mean
        scale = round_dl16_(torch.rsqrt((variance.clamp_min(0) if clamped else variance) + eps))
        normal = (x - mean) * scale
        normal = normal if weight is None else normal * weight
        return round_dl16_(normal if bias is None else normal + bias)
    size = chunk if policy == "chunked" else CHUNK_OF_SERIAL
    result: Tensor = _ext().norm_rows(x.reshape(-1, x.shape[-1]), weight, bias, eps, size, clamped)
    return result.view(x.shape)
