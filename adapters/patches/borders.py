"""P61: a fresh copy at each block border."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..reversal import Reversal
from ..structure import find_blocks
from .base import Patch, PatchContext, Target, Undo, types_of


@dataclass(frozen=True)
class CloneAtBorder(Patch):
    """Clones each block's output before the next block reads it; outside the compiled block, so that it is a copy."""

    pattern: ClassVar[str] = "P61"
    mathematics: ClassVar[str] = "a copy holds the same values"

    def match(self, model: nn.Module) -> list[Target]:
        """Every block, each once."""
        return [Target(b.path, b.module) for b in find_blocks(model)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Hooks each block instance."""
        undo = Reversal()
        for target in self.match(model):
            undo.hook(target.module.register_forward_hook(clone_output))
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The block classes."""
        return types_of(self.match(model))


def clone_output(module: nn.Module, args: Any, output: Any) -> Any:
    """The block's output with its hidden states (a tensor, or a tuple's first) cloned, contiguous."""
    if isinstance(output, tuple):
        return (_fresh(output[0]), *output[1:])
    return _fresh(output)


def _fresh(value: torch.Tensor) -> torch.Tensor:
    return value.clone(memory_format=torch.contiguous_format)
