"""At which precision a document is replayed: one map over dtype arguments, weights and declared results."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import torch
from torch import Tensor


class Precision(StrEnum):
    """AS_IS is what runs on the device; FP32 and FP64 map every float dtype to that one. Stored text."""

    AS_IS = "as_is"
    FP32 = "fp32"
    FP64 = "fp64"

    def dtype(self, given: torch.dtype) -> torch.dtype:
        """The dtype that stands for `given`; integers and masks keep theirs."""
        mapped = _MAPPED.get(self)
        return mapped if mapped is not None and given.is_floating_point else given

    def tensor(self, given: Tensor) -> Tensor:
        """The tensor in its mapped dtype; itself if that is its own."""
        return given.to(self.dtype(given.dtype))

    def number(self, given: Any) -> Any:
        """A literal that the target holds: finfo.min of a wider dtype becomes that of this one, not -inf."""
        mapped = _MAPPED.get(self)
        if mapped is None or type(given) is not float or given != given or abs(given) == float("inf"):
            return given
        largest = torch.finfo(mapped).max
        return min(max(given, -largest), largest)


_MAPPED = {Precision.FP32: torch.float32, Precision.FP64: torch.float64}
