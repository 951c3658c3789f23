"""Sums, differences and products of two DL16 operands: one pass, the exact float32 result rounded once.

Operands are tensors that broadcast, float32 on the DL16 grid; other dtypes are read as float32 first, as PyTorch's
promotion does. The result is new and contiguous.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sim_backend.numerics import _ext


def add(a: Tensor, b: Tensor) -> Tensor:
    """a + b."""
    result: Tensor = _ext().add(_single(a), _single(b))
    return result


def sub(a: Tensor, b: Tensor) -> Tensor:
    """a - b."""
    result: Tensor = _ext().sub(_single(a), _single(b))
    return result


def mul(a: Tensor, b: Tensor) -> Tensor:
    """a * b."""
    result: Tensor = _ext().mul(_single(a), _single(b))
    return result


def _single(value: Tensor) -> Tensor:
    return value if value.dtype == torch.float32 else value.to(torch.float32)
