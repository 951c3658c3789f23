"""The stock embedding model as sentence-transformers runs it: transformer, pooling, normalisation in one module.

Used as the subject of capability reports: pooling is part of what must run, on the device in the stock case.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class StockEmbedder(nn.Module):
    """transformer → pooling (one of POOLINGS) → optional L2 normalisation.

    `forward` takes int64 `input_ids` and `attention_mask` of shape [batch, length] and returns the sentence embeddings
    [batch, width] in the model's dtype. The operations are those of the sentence-transformers modules of that name.
    """

    def __init__(self, model: nn.Module, pooling: str | None, normalize: bool | None) -> None:
        super().__init__()
        self.model = model
        self.pooling = POOLINGS[pooling or "mean"]
        self.normalize = bool(normalize)

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        tokens = self.model(**inputs).last_hidden_state
        pooled = self.pooling(tokens, inputs["attention_mask"])
        return F.normalize(pooled, p=2, dim=1) if self.normalize else pooled


def pool_mean(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over real tokens: sum in fp32 where the tokens are 16 bit, divisor at least 1e-9."""
    wide = _wide(tokens)
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    total = (tokens * weights).sum(dim=1, dtype=wide)
    count = torch.clamp(weights.sum(dim=1, dtype=wide), min=1e-9)
    return (total / count).to(tokens.dtype)


def pool_mean_sqrt(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The sum over real tokens by the square root of their number."""
    wide = _wide(tokens)
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    total = (tokens * weights).sum(dim=1, dtype=wide)
    count = torch.clamp(weights.sum(dim=1, dtype=wide), min=1e-9)
    return (total / torch.sqrt(count)).to(tokens.dtype)


def pool_weighted(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over real tokens with weights 1, 2, ... from the first real one on, in fp32 where the tokens are 16 bit."""
    wide = _wide(tokens)
    places = torch.arange(1, tokens.shape[1] + 1, device=tokens.device, dtype=wide)[None, :, None]
    places = places - mask.to(torch.int32).argmax(dim=1)[:, None, None]
    weights = mask.unsqueeze(-1).to(wide) * places
    total = (tokens * weights).sum(dim=1)
    return (total / torch.clamp(weights.sum(dim=1), min=1e-9)).to(tokens.dtype)


def pool_max(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The largest value per component over real tokens."""
    kept = mask.unsqueeze(-1).expand_as(tokens).to(tokens.dtype)
    return tokens.masked_fill(kept == 0, float("-inf")).max(dim=1).values


def _wide(tokens: torch.Tensor) -> torch.dtype:
    return torch.float32 if tokens.dtype in (torch.float16, torch.bfloat16) else tokens.dtype


def pool_cls(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The first real token of each row."""
    first = mask.to(torch.int32).argmax(dim=1)
    index = first[:, None, None].expand(-1, 1, tokens.shape[-1])
    return torch.gather(tokens, 1, index).squeeze(1)


def pool_last(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The last real token of each row."""
    values, indices = mask.flip(1).max(1)
    length = tokens.shape[1]
    indices = torch.where(values == 0, length - 1, indices)
    index = (length - indices - 1)[:, None, None].expand(-1, 1, tokens.shape[-1])
    return torch.gather(tokens * mask.unsqueeze(-1).to(tokens.dtype), 1, index).squeeze(1)


POOLINGS: dict[str, Any] = {
    "mean": pool_mean,
    "mean_sqrt_len_tokens": pool_mean_sqrt,
    "weightedmean": pool_weighted,
    "max": pool_max,
    "cls": pool_cls,
    "lasttoken": pool_last,
    "last": pool_last,
}
"""Pooling by its sentence-transformers name."""
