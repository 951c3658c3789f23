"""How the stream of a patched model stands to the stock model's at a block border.

Patches may pad the length on one side, pad the width with zeros (P23), or hold the stream divided by a power of two
(P13). Then the two borders still carry the same mathematics, and one tensor can be led into both blocks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

LIKE = 1e-6
"""Natural streams that agree to this are the same up to the map; whether they are equal is compared afterwards."""


class Border(NamedTuple):
    """The map from a stock stream [batch, length, width] to the patched one: tokens added, factor, width added."""

    left: int
    right: int
    factor: float
    channels: int

    def inward(self, stream: Tensor, filler: Tensor) -> Tensor:
        """A stock stream as the patched block would get it; padded tokens come from the patched model's own stream."""
        held = F.pad(stream * self.factor, (0, self.channels))
        end = filler.shape[1] - self.right
        return torch.cat([filler[:, : self.left], held, filler[:, end:]], dim=1)

    def outward(self, stream: Tensor) -> Tensor:
        """A patched block's output as the stock block would give it."""
        end = stream.shape[1] - self.right
        kept = stream[:, self.left : end, : stream.shape[2] - self.channels]
        return kept / self.factor


def find_border(stock: Tensor, patched: Tensor, real: Tensor) -> Border | None:
    """The map between two natural streams, judged on real tokens; None if it is none of those known."""
    added, channels = patched.shape[1] - stock.shape[1], patched.shape[2] - stock.shape[2]
    if added < 0 or channels < 0 or patched.shape[0] != stock.shape[0]:
        return None
    for left in dict.fromkeys((0, added)):
        kept = patched[:, left : left + stock.shape[1]]
        if channels and bool((kept[..., stock.shape[2] :][real] != 0).any()):
            continue
        factor = _factor(stock[real], kept[..., : stock.shape[2]][real])
        if factor is not None:
            return Border(left, added - left, factor, channels)
    return None


def _factor(stock: Tensor, patched: Tensor) -> float | None:
    """The power of two that takes one to the other; None if there is none."""
    size = stock.abs().max()
    ratio = float(patched.abs().max() / size) if size > 0 else 0.0
    if not (math.isfinite(ratio) and ratio > 0):
        return None
    factor = 2.0 ** round(math.log2(ratio))
    near = (patched - stock * factor).abs().max() <= LIKE * size * factor
    return factor if bool(near) else None
