"""fp32 copies of constant weights beside their codes, so that a forward does not decode them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

_copies: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def cached_weight(
    weight: torch.Tensor, decode: Callable[[torch.Tensor], torch.Tensor], form: Any = None
) -> torch.Tensor:
    """`decode(weight)`, kept until the weight's storage or version changes or the weight dies.

    `form` tells apart different copies of one weight. Inference tensors have no version and are decoded anew.
    """
    if weight.is_inference():
        return decode(weight)
    state = (weight.data_ptr(), weight._version)
    held: dict[Any, Any] | None = _copies.get(weight)
    if held is None or held["state"] != state:
        held = _copies[weight] = {"state": state}
    if form not in held:
        held[form] = decode(weight)
    copy: torch.Tensor = held[form]
    return copy
