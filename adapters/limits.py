"""Which inputs an adapted model takes, checked before anything runs. Shapes only: no value is read."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .errors import ShapeRefused, StructureUnknown
from .structure import counts_positions_by_id, position_table


def longest_input(model: nn.Module) -> int | None:
    """Tokens of the longest input that the table of learned positions allows; None where positions are computed."""
    try:
        table = position_table(model)
        by_id = table is not None and counts_positions_by_id(model)
    except StructureUnknown:
        return None
    if table is None:
        return None
    return table.num_embeddings - (((table.padding_idx or 0) + 1) if by_id else 0)


def check_inputs(name: str, values: dict[str, Any], longest: int | None) -> None:
    """Raises ShapeRefused for token inputs the model cannot take; inputs that are no tokens are left to the model."""
    tokens = values.get("input_ids") if values.get("input_ids") is not None else values.get("inputs_embeds")
    if not isinstance(tokens, torch.Tensor):
        return
    wanted = 2 if values.get("input_ids") is not None else 3
    if tokens.ndim != wanted or 0 in tokens.shape:
        shape = "[batch, length]" if wanted == 2 else "[batch, length, size]"
        raise ShapeRefused(f"{name}: tokens of shape {tuple(tokens.shape)}; give {shape}, none of them 0")
    batch, length = tokens.shape[:2]
    if longest is not None and length > longest:
        raise ShapeRefused(f"{name}: {length} tokens, the model has positions for {longest}; truncate to {longest}")
    mask = values.get("attention_mask")
    if isinstance(mask, torch.Tensor) and mask.ndim == 2 and tuple(mask.shape) != (batch, length):
        raise ShapeRefused(f"{name}: attention_mask is {tuple(mask.shape)}; give {(batch, length)}, one value a token")
