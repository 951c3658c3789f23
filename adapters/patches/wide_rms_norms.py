"""P58: RMS norms computed in fp32 between 16-bit values, the gain too, so that each is rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply
from ..rebinding import give
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of
from .norms import is_rms_norm
from .rotary_heads import adds_one, epsilon_of


@dataclass(frozen=True)
class WideRmsNorm(Patch):
    """The definition in fp32: no power, no sum over the width that is rounded step by step, and one rounding.

    Stock classes return to 16 bits before they multiply by the gain, and round again. A run in fp32 or wider is
    computed in its own dtype.
    """

    pattern: ClassVar[str] = "P58"
    mathematics: ClassVar[str] = "y = x * rsqrt(mean(x*x) + eps) * g: the definition, in fp32"
    conflicts: ClassVar[tuple[str, ...]] = ("P10", "P23")

    def match(self, model: nn.Module) -> list[Target]:
        """Every RMS norm. Raises PatchDoesNotApply if there is none."""
        targets = [Target(p, m) for p, m in model.named_modules() if is_rms_norm(m)]
        if not targets:
            raise PatchDoesNotApply("P58: the model has no RMS norm")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each instance the formula with its own epsilon and its own reading of the gain."""
        undo = Reversal()
        for target in self.match(model):
            norm: Any = target.module
            undo.set_attribute(norm, "rms_epsilon", getattr(norm, epsilon_of(norm)))
            undo.set_attribute(norm, "gain_offset", 1.0 if adds_one(norm) else 0.0)
            give(undo, norm, wide_rms_norm)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The norms' classes."""
        return types_of(self.match(model))


def wide_rms_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., width] over its root mean square, times the gain (Gemma's: 1 + gain), of x's dtype."""
    wide = torch.promote_types(x.dtype, torch.float32)
    y, gain = x.to(wide), self.weight.to(wide)
    gain = gain + self.gain_offset if self.gain_offset else gain
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + self.rms_epsilon) * gain).to(x.dtype)
