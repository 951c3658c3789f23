"""P40: the attention mask as an additive float mask, built on the host and always present."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import masking_utils

from ..digests import source_of
from ..errors import PatchDoesNotApply, PatchParameters
from ..structure import encoder_of, find_blocks, is_causal
from .base import PHASE_MASK, HostCall, Patch, PatchContext, Target, Undo

FILLS = ("finfo_min_half",)
WINDOWS = ("sliding_window", "local_attention", "attention_window", "window_size")
MASK_MAKERS = ("create_bidirectional_mask(", "create_causal_mask(")


@dataclass(frozen=True)
class AdditiveMask(Patch):
    """Gives the model a mask [batch, 1, length, length] of the run's dtype: 0 where allowed, finfo.min/2 elsewhere.

    transformers returns a four-dimensional mask as it is. Never -inf and never finfo.min: two of them would overflow.
    """

    pattern: ClassVar[str] = "P40"
    mathematics: ClassVar[str] = "softmax(S + M) with exp(M) = 0 in the dtype is softmax over the allowed positions"

    fill: str = "finfo_min_half"

    def match(self, model: nn.Module) -> list[Target]:
        """The model itself. Raises PatchDoesNotApply where it makes its masks itself or windows them."""
        if self.fill not in FILLS:
            raise PatchParameters(f"P40: fill {self.fill!r} is not one of {FILLS}")
        window = next((n for n in WINDOWS if getattr(model.config, n, None)), None)
        if window is not None and getattr(model.config, "use_sliding_window", True):
            raise PatchDoesNotApply(f"P40: the model windows its attention ({window}); that needs P45")
        if not any(maker in source_of(c) for c in self.replaced(model)[:-1] for maker in MASK_MAKERS):
            raise PatchDoesNotApply(f"P40: {type(model).__name__} does not take a prepared mask")
        return [Target("", model)]

    def apply(self, model: nn.Module, context: PatchContext) -> Undo:
        """Adds the host stage that builds the mask from the caller's two-dimensional one (none: all real)."""
        self.match(model)
        causal, dtype = is_causal(model), context.dtype

        def stage(inputs: dict[str, Any], call: HostCall) -> dict[str, Any]:
            return {**inputs, "attention_mask": additive_mask(_two_dimensional(inputs), dtype, causal=causal)}

        return context.add_stage(PHASE_MASK, stage)

    def replaced(self, model: nn.Module) -> list[Any]:
        """The classes that pass the mask on, and the function that lets a prepared mask through."""
        encoder = encoder_of(model, find_blocks(model))
        classes = [type(model)] if encoder is None else [type(model), type(encoder)]
        return [*classes, masking_utils._preprocess_mask_arguments]


def additive_mask(mask: torch.Tensor, dtype: torch.dtype, *, causal: bool = False) -> torch.Tensor:
    """[batch, length] of 0 and 1 → [batch, 1, length, length] of `dtype`, contiguous: 0 or finfo(dtype).min / 2.

    Row i may see column j if token j is real and, when `causal`, j <= i. A row that may see nothing (left padding of
    a causal model) sees itself, so that it stays finite; such rows belong to padding.
    """
    batch, length = mask.shape
    allowed = mask.bool()[:, None, None, :].expand(batch, 1, length, length)
    if causal:
        triangle = torch.ones(length, length, dtype=torch.bool).tril()
        allowed = (allowed & triangle) | torch.eye(length, dtype=torch.bool)
    additive = torch.zeros((batch, 1, length, length), dtype=dtype)
    return additive.masked_fill(~allowed, torch.finfo(dtype).min / 2)


def _two_dimensional(inputs: dict[str, Any]) -> torch.Tensor:
    mask = inputs.get("attention_mask")
    if mask is None:
        tokens = inputs["input_ids"] if inputs.get("input_ids") is not None else inputs["inputs_embeds"]
        return torch.ones(tokens.shape[:2], dtype=torch.int64)
    if mask.ndim != 2:
        raise PatchDoesNotApply(f"P40: attention_mask has {mask.ndim} dimensions; give [batch, length]")
    return mask
