"""fp32 copies of constant weights beside their codes, so that a forward does not decode them again."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.weak import WeakTensorKeyDictionary

_copies: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def cached_weight(weight: torch.Tensor, decode: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """`decode(weight)`, kept until the weight's storage or version changes or the weight dies.

    Inference tensors have no version and are decoded anew.
    """
    if weight.is_inference():
        return decode(weight)
    key = (weight.data_ptr(), weight._version, weight.shape, weight.stride())
    held = _copies.get(weight)
    if held is None or held[0] != key:
        held = (key, decode(weight))
        _copies[weight] = held
    copy: torch.Tensor = held[1]
    return copy


def drop_weight_copies() -> None:
    """Free every copy."""
    _copies.clear()
