"""P66: blocks without their look for infinities, which stock code has for float16 only (T5 and its kin)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from ..errors import PatchDoesNotApply
from ..rebinding import give, own_function
from ..reversal import Reversal
from ..structure import find_blocks
from .base import Patch, PatchContext, Target, Undo, types_of


@dataclass(frozen=True)
class WithoutOverflowLooks(Patch):
    """Runs attention and feed-forward part of a block, and nothing between them.

    Stock clamps to the range of float16 after each, in float16 alone: in fp32 and bfloat16 the code is this one.
    """

    pattern: ClassVar[str] = "P66"
    mathematics: ClassVar[str] = "a clamp to the range of the dtype changes no value inside it; in fp32 there is none"

    def match(self, model: nn.Module) -> list[Target]:
        """The encoder blocks that test for infinities. Raises PatchDoesNotApply if there is none."""
        targets = [Target(b.path, b.module) for b in find_blocks(model) if looks_for_overflow(b.module)]
        if not targets:
            raise PatchDoesNotApply("P66: no encoder block of two parts looks for infinities")
        return targets

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Gives each block the plain sequence."""
        undo = Reversal()
        for target in self.match(model):
            give(undo, target.module, both_parts)
        return undo

    def replaced(self, model: nn.Module) -> list[Any]:
        """The blocks' classes."""
        return types_of(self.match(model))


def looks_for_overflow(block: nn.Module) -> bool:
    """True for an encoder block of attention and feed-forward part whose own code asks for infinities."""
    code, parts = getattr(own_function(block), "__code__", None), getattr(block, "layer", None)
    encoder = getattr(block, "is_decoder", None) is False and isinstance(parts, nn.ModuleList) and len(parts) == 2
    return encoder and code is not None and "isinf" in code.co_names


def both_parts(
    self: Any,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    encoder_hidden_states: None = None,
    encoder_attention_mask: None = None,
    encoder_decoder_position_bias: None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor, None]:
    """Hidden states [B, L, width], the bias [1, heads, L, L] for the next block, and no bias of cross attention."""
    attend, feed_forward = self.layer
    hidden, bias, _ = attend(hidden_states, attention_mask=attention_mask, position_bias=position_bias, **kwargs)
    return feed_forward(hidden), bias, None
