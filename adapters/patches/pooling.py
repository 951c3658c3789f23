"""P12 and P80: pooling and normalisation on the host in fp32. A declaration: the caller runs them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from .. import embedding
from ..errors import PatchParameters
from ..reversal import Reversal
from .base import Patch, PatchContext, Target, Undo


@dataclass(frozen=True)
class HostPooling(Patch):
    """Pooling runs on the host on the model's fp32 output (`adapters.embedding`, or sentence-transformers' module)."""

    pattern: ClassVar[str] = "P80"
    mathematics: ClassVar[str] = "sum(x*m) / max(sum(m), 1e-9) in fp32 on the host"

    placement: str = "host"

    def match(self, model: nn.Module) -> list[Target]:
        """The model: its output is pooled."""
        if self.placement != "host":
            raise PatchParameters(f"{self.pattern}: placement {self.placement!r} is not 'host'")
        return [Target("", model)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Declares the placement; the integration obeys it."""
        self.match(model)
        undo = Reversal()
        undo.set_item(context.declared, self.pattern, self.placement)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The host functions used instead."""
        return [embedding.pool]


@dataclass(frozen=True)
class HostNormalise(HostPooling):
    """L2 normalisation runs on the host in fp32."""

    pattern: ClassVar[str] = "P12"
    mathematics: ClassVar[str] = "x / max(|x|, 1e-12) in fp32 on the host"

    def replaced(self, model: nn.Module) -> list[Any]:
        """The host function used instead."""
        return [embedding.normalise]
