"""P03, P50 and P08: helpers that stock code calls by name, made elsewhere or by another operation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from ..digests import source_of
from ..errors import PatchDoesNotApply, PatchParameters
from ..rebinding import calls_by_name, global_of, own_function, rebind
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of

GELU, ERF_FORM = "gelu", "x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))"
ALIBI = "build_alibi_tensor"


@dataclass(frozen=True)
class FusedGelu(Patch):
    """Calls the fused operator where stock code writes gelu out with erf."""

    pattern: ClassVar[str] = "P03"
    mathematics: ClassVar[str] = "x/2 * (1 + erf(x / sqrt 2)) is the definition of gelu"

    def match(self, model: nn.Module) -> list[Target]:
        """The modules that call the written form. Raises PatchDoesNotApply if none does."""
        targets = [Target(p, m) for p, m in model.named_modules() if _writes_gelu(m)]
        if not targets:
            raise PatchDoesNotApply("P03: no module calls a gelu that is written out with erf")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Rebinds the name in each instance."""
        undo = Reversal()
        for target in self.match(model):
            rebind(undo, target.module, {GELU: F.gelu})
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The modules' classes and the written form."""
        targets = self.match(model)
        return [*types_of(targets), *{global_of(t.module, GELU) for t in targets}]


def _writes_gelu(module: nn.Module) -> bool:
    found = own_function(module).__globals__.get(GELU) if calls_by_name(module, GELU) else None
    return inspect.isfunction(found) and ERF_FORM in source_of(found)


@dataclass(frozen=True)
class HostAlibi(Patch):
    """Makes the bias of ALiBi on the host in fp32, relative to the row: m * (j - i), precise near the diagonal."""

    pattern: ClassVar[str] = "P50"
    mathematics: ClassVar[str] = "m*j and m*(j - i) differ by a constant of the row, which softmax does not see"

    placement: str = "host"

    def match(self, model: nn.Module) -> list[Target]:
        """The module that makes the bias. Raises PatchDoesNotApply if there is none."""
        if self.placement != "host":
            raise PatchParameters(f"P50: placement {self.placement!r} is not 'host'")
        targets = [Target(p, m) for p, m in model.named_modules() if hasattr(type(m), ALIBI)]
        if not targets:
            raise PatchDoesNotApply(f"P50: no module of the model makes its bias by {ALIBI}")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives the instance a method that runs on the host."""
        undo = Reversal()
        for target in self.match(model):
            undo.set_attribute(target.module, ALIBI, RelativeAlibi(context, getattr(target.module, ALIBI)))
        undo.add(context.keep_on_host("attention_mask"))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes and the function whose slopes are repeated here."""
        targets = self.match(model)
        return [*types_of(targets), *{global_of(t.module, ALIBI, ALIBI) for t in targets}]


@dataclass(frozen=True)
class RelativeAlibi:
    """Stands in for the method that makes ALiBi's bias; `stock` is that method."""

    context: PatchContext
    stock: Callable[[torch.Tensor, int, torch.dtype], torch.Tensor]

    def __call__(self, attention_mask: torch.Tensor, num_heads: int, dtype: torch.dtype) -> torch.Tensor:
        """[batch * heads, length, length]: slope * (place of key - place of query), places counted over real tokens."""
        mask = attention_mask.cpu()
        place = ((mask.cumsum(dim=-1) - 1) * mask).to(torch.float32)
        distance = place[:, None, None, :] - place[:, None, :, None]
        bias = self.slopes(num_heads)[None, :, None, None] * distance
        return bias.flatten(0, 1).to(dtype).contiguous().to(self.context.device)

    def slopes(self, heads: int) -> torch.Tensor:
        """[heads], fp32: stock's bias at place 1. Its powers of a rounded root are not those of the exact one."""
        return self.stock(torch.ones(1, 2, dtype=torch.int64, device="cpu"), heads, torch.float32)[:, 0, 1]
