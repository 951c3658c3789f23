"""Sentence embeddings from token vectors, on the host in fp32: pooling (P80 to P82) and normalisation (P12)."""

from __future__ import annotations

from collections.abc import Callable

import torch

MIN_TOKENS = 1e-9
MIN_NORM = 1e-12


def mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """sum(x*m) / max(sum(m), 1e-9) over tokens. [batch, length, size] and [batch, length] → [batch, size] fp32."""
    weights = mask.to(torch.float32)[:, :, None]
    return (hidden.to(torch.float32) * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=MIN_TOKENS)


def cls(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The first real token's vector (the first token unless padded on the left). fp32 [batch, size]."""
    return _rows(hidden, mask.to(torch.int64).argmax(dim=1))


def last(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The last real token's vector, for any padding side. fp32 [batch, size]."""
    length = mask.shape[1]
    return _rows(hidden, length - 1 - mask.to(torch.int64).flip(1).argmax(dim=1))


def mean_sqrt(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """sum(x*m) / sqrt(sum(m)) over tokens. fp32 [batch, size]."""
    weights = mask.to(torch.float32)[:, :, None]
    return (hidden.to(torch.float32) * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=MIN_TOKENS).sqrt()


def weighted_mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean with weights 1, 2, ... from the first real token on (P84). fp32 [batch, size]."""
    first = mask.to(torch.int64).argmax(dim=1, keepdim=True)
    place = torch.arange(1, mask.shape[1] + 1)[None] - first
    return mean(hidden, mask.to(torch.float32) * place)


def largest(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The largest value per component over real tokens. fp32 [batch, size]."""
    return hidden.to(torch.float32).masked_fill(~mask.bool()[:, :, None], float("-inf")).amax(dim=1)


POOLINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mean": mean,
    "cls": cls,
    "last": last,
    "lasttoken": last,
    "max": largest,
    "mean_sqrt_len_tokens": mean_sqrt,
    "weightedmean": weighted_mean,
}


def pool(hidden: torch.Tensor, mask: torch.Tensor, pooling: str = "mean") -> torch.Tensor:
    """Token vectors [batch, length, size] and mask [batch, length] of 0 and 1 → fp32 [batch, size].

    `pooling` is a key of POOLINGS. Raises ValueError for another name.
    """
    if pooling not in POOLINGS:
        raise ValueError(f"pooling {pooling!r} is not one of {sorted(POOLINGS)}")
    return POOLINGS[pooling](hidden, mask)


def normalise(vectors: torch.Tensor) -> torch.Tensor:
    """x / max(|x|, 1e-12) along the last axis, in fp32."""
    vectors = vectors.to(torch.float32)
    return vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=MIN_NORM)


def embed(hidden: torch.Tensor, mask: torch.Tensor, pooling: str = "mean", *, normalised: bool = True) -> torch.Tensor:
    """Pooled and, unless told otherwise, normalised embeddings. fp32 [batch, size]."""
    pooled = pool(hidden, mask, pooling)
    return normalise(pooled) if normalised else pooled


def _rows(hidden: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return hidden.to(torch.float32)[torch.arange(hidden.shape[0]), index]
