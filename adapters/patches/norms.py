"""P10, P11 and P60: norms written out, and their inputs made contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..rebinding import give, own_function
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of
from .rotary_heads import EPSILONS, adds_one, epsilon_of

stock_forward: Any = None
"""Name that `contiguous_first` uses: `give` fills it with the method there was before."""


@dataclass(frozen=True)
class UnfusedRmsNorm(Patch):
    """w * (y * rsqrt(mean(y*y) + eps/s^2)) with y = x/s: no power, no other dtype, and no overflow below s times more.

    `scale` s is a power of two, so that the division is exact; 1 leaves the formula as it is.
    """

    pattern: ClassVar[str] = "P10"
    mathematics: ClassVar[str] = "x/s over the root of mean((x/s)^2) + eps/s^2: s cancels; powers of two divide exactly"
    exactness: ClassVar[str] = "bounded"
    bound: ClassVar[float | None] = 1e-2

    scale: float = 1.0

    def match(self, model: nn.Module) -> list[Target]:
        """Every RMS norm. Raises PatchDoesNotApply if there is none, PatchParameters for a scale that is no power."""
        if self.scale < 1 or torch.frexp(torch.tensor(self.scale)).mantissa != 0.5:
            raise PatchParameters(f"P10: scale {self.scale!r} is not 1 or a larger power of two")
        targets = [Target(p, m) for p, m in model.named_modules() if is_rms_norm(m)]
        if not targets:
            raise PatchDoesNotApply("P10: the model has no RMS norm")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each norm instance the formula with its own epsilon."""
        undo = Reversal()
        for target in self.match(model):
            norm: Any = target.module
            undo.set_attribute(norm, "rms_scale", 1.0 / self.scale)
            undo.set_attribute(norm, "rms_epsilon", getattr(norm, epsilon_of(norm)) / self.scale**2)
            give(undo, norm, rms_of_one_plus if adds_one(norm) else rms_of)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The norms' classes."""
        return types_of(self.match(model))


def is_rms_norm(module: nn.Module) -> bool:
    """True for a norm without mean and bias: RMSNorm and T5LayerNorm and their kin, with one epsilon and one gain."""
    gain = module._parameters.get("weight")
    epsilon = any(isinstance(getattr(module, n, None), float) for n in EPSILONS)
    norm = "Norm" in type(module).__name__ and not isinstance(module, nn.LayerNorm)
    return norm and epsilon and gain is not None and gain.ndim == 1 and module._parameters.get("bias") is None


def rms_of(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., width] over its root mean square, times the gain."""
    y = x * self.rms_scale
    return self.weight * (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + self.rms_epsilon))


def rms_of_one_plus(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., width] over its root mean square, times 1 + gain."""
    y = x * self.rms_scale
    return (1.0 + self.weight) * (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + self.rms_epsilon))


@dataclass(frozen=True)
class UnfusedLayerNorm(Patch):
    """d * rsqrt(mean(d*d) + eps) * g + b with d = x - mean(x), in two passes."""

    pattern: ClassVar[str] = "P11"
    mathematics: ClassVar[str] = "d = x - mean(x); y = d * rsqrt(mean(d*d) + eps) * g + b: the definition"

    def match(self, model: nn.Module) -> list[Target]:
        """Every layer norm over the last axis. Raises PatchDoesNotApply if there is none."""
        found = ((p, m) for p, m in model.named_modules() if isinstance(m, nn.LayerNorm))
        targets = [Target(p, m) for p, m in found if len(m.normalized_shape) == 1]
        if not targets:
            raise PatchDoesNotApply("P11: the model has no layer norm")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each instance the formula."""
        undo = Reversal()
        for target in self.match(model):
            give(undo, target.module, layer_norm_of)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The norms' classes."""
        return types_of(self.match(model))


def layer_norm_of(self: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., width] normalised over its last axis; gain and bias where there are any."""
    d = x - x.mean(-1, keepdim=True)
    y = d * torch.rsqrt((d * d).mean(-1, keepdim=True) + self.eps)
    y = y if self.weight is None else y * self.weight
    return y if self.bias is None else y + self.bias


@dataclass(frozen=True)
class ContiguousNorms(Patch):
    """Copies what norms of single heads read into its own order: they read a transposed view otherwise."""

    pattern: ClassVar[str] = "P60"
    mathematics: ClassVar[str] = "a copy in another memory order holds the same values"

    names: tuple[str, ...] = ("q_norm", "k_norm")

    def match(self, model: nn.Module) -> list[Target]:
        """The modules with one of the names. Raises PatchDoesNotApply if there is none."""
        found = [Target(p, m) for p, m in model.named_modules() if p.rpartition(".")[2] in self.names]
        if not found:
            raise PatchDoesNotApply(f"P60: the model has no module named {', '.join(self.names)}")
        return found

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Puts the copy before the method that each instance has."""
        undo = Reversal()
        for target in self.match(model):
            give(undo, target.module, contiguous_first, {"stock_forward": own_function(target.module)})
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes of the modules."""
        return types_of(self.match(model))


def contiguous_first(self: Any, x: torch.Tensor) -> torch.Tensor:
    """The method there was, on a contiguous copy."""
    return stock_forward(self, x.contiguous())
