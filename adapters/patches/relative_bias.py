"""P47: relative position bias looked up on the host."""

from __future__ import annotations

import types
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply, PatchParameters
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo, types_of

TABLE = "relative_attention_bias"
METHOD = "compute_position_bias"


@dataclass(frozen=True)
class HostRelativeBias(Patch):
    """Computes the bias [batch, heads, L, L] with the stock method on the host, then casts and moves it."""

    pattern: ClassVar[str] = "P47"
    mathematics: ClassVar[str] = "the same table rows, looked up on the host"

    placement: str = "host"

    def match(self, model: nn.Module) -> list[Target]:
        """The encoder that computes one bias for all its blocks. Raises PatchDoesNotApply if there is none."""
        if self.placement != "host":
            raise PatchParameters(f"P47: placement {self.placement!r} is not 'host'")
        targets = [Target(p, m) for p, m in model.named_modules() if _computes_bias(m)]
        if not targets:
            raise PatchDoesNotApply("P47: no module computes a relative bias for all blocks at once")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each encoder instance a method that runs the stock one on a host stand-in of the hidden states."""
        undo = Reversal()
        for target in self.match(model):
            table = target.module._modules[TABLE]
            context.host_modules.append(table)
            undo.add(partial(context.host_modules.remove, table))
            undo.set_attribute(target.module, METHOD, types.MethodType(_on_host, target.module))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The encoders' classes."""
        return types_of(self.match(model))


def _computes_bias(module: nn.Module) -> bool:
    return isinstance(module._modules.get(TABLE), nn.Embedding) and hasattr(type(module), METHOD)


def _on_host(encoder: nn.Module, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    stand_in = torch.empty(x.shape[:2], device="cpu")
    bias = getattr(type(encoder), METHOD)(encoder, stand_in, *args, **kwargs)
    return bias.to(x.dtype).to(x.device)
