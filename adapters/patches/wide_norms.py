"""P57: layer norms computed in fp32 between 16-bit values, so that each is rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply
from ..rebinding import give
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of


@dataclass(frozen=True)
class WideLayerNorm(Patch):
    """P11's two passes in fp32: sums over the width are no longer rounded step by step, the result is, once.

    A run in fp32 or wider is computed in its own dtype.
    """

    pattern: ClassVar[str] = "P57"
    mathematics: ClassVar[str] = "d = x - mean(x); y = d * rsqrt(mean(d*d) + eps) * g + b: the definition, in fp32"
    conflicts: ClassVar[tuple[str, ...]] = ("P11", "P23")

    def match(self, model: nn.Module) -> list[Target]:
        """Every layer norm over the last axis. Raises PatchDoesNotApply if there is none."""
        found = ((p, m) for p, m in model.named_modules() if isinstance(m, nn.LayerNorm))
        targets = [Target(p, m) for p, m in found if len(m.normalized_shape) == 1]
        if not targets:
            raise PatchDoesNotApply("P57: the model has no layer norm")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each instance the formula."""
        undo = Reversal()
        for target in self.match(model):
            give(undo, target.module, wide_layer_norm)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The norms' classes."""
        return types_of(self.match(model))


def wide_layer_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., width] normalised over its last axis, of x's dtype; gain and bias where there are any."""
    wide = torch.promote_types(x.dtype, torch.float32)
    y = x.to(wide)
    d = y - y.mean(-1, keepdim=True)
    y = d * torch.rsqrt((d * d).mean(-1, keepdim=True) + self.eps)
    y = y if self.weight is None else y * self.weight.to(wide)
    y = y if self.bias is None else y + self.bias.to(wide)
    return y.to(x.dtype)
