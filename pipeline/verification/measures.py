"""What is measured between a candidate's output and a reference. Pure functions over tensors, computed in fp64.

Tokens are (batch, length, width); masks are (batch, length), non-zero where a token is real. Cosines are defined as 0
where a vector is zero and as NaN where it is not finite: a caller that compares must treat NaN as a failure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class NormRange(NamedTuple):
    """Lowest and highest ratio of a text's norm, candidate over reference; 1 is perfect."""

    low: float
    high: float


def real_tokens(tokens: Tensor, mask: Tensor) -> Tensor:
    """The unmasked tokens, (count, width) fp64."""
    return tokens.double()[mask.bool()]


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """Cosine per row, fp64. 0 where a row is zero on either side."""
    a, b = a.double(), b.double()
    norms = a.norm(dim=-1) * b.norm(dim=-1)
    return torch.where(norms == 0, 0.0, (a * b).sum(-1) / norms.clamp(min=torch.finfo(torch.float64).tiny))


def lowest_token_cosine(candidate: Tensor, reference: Tensor, mask: Tensor) -> float:
    """The worst token: lowest cosine over unmasked tokens; NaN if any is NaN. Raises ValueError on no token."""
    found = cosines(real_tokens(candidate, mask), real_tokens(reference, mask))
    if not found.numel():
        raise ValueError("no unmasked token to compare")
    return _least(found)


def _least(values: Tensor) -> float:
    return float("nan") if bool(values.isnan().any()) else float(values.min())


def norm_range(candidate: Tensor, reference: Tensor, mask: Tensor) -> NormRange:
    """Extremes over texts of |candidate| / |reference|, each the norm over all unmasked values of one text.

    Scale is a property of a text's output: the cosine, which is blind to it, is taken token by token. The norm of one
    token is no measure of it at 16 bits: on the real MiniLM an ideal DL16 device leaves 0.986 on single tokens.
    """
    ratio = text_norms(candidate, mask) / text_norms(reference, mask)
    if bool(ratio.isnan().any()):
        return NormRange(float("nan"), float("nan"))
    return NormRange(float(ratio.min()), float(ratio.max()))


def text_norms(tokens: Tensor, mask: Tensor) -> Tensor:
    """The norm over all unmasked values of each text, (batch,) fp64."""
    kept = torch.where(mask.bool().unsqueeze(-1), tokens.double(), 0.0)
    return kept.flatten(1).norm(dim=1)


def all_finite(tokens: Tensor, mask: Tensor) -> bool:
    """True if every unmasked value is finite."""
    return bool(real_tokens(tokens, mask).isfinite().all())


def pool_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean over unmasked tokens, (batch, width) fp64 (pattern P80)."""
    weights = mask.double().unsqueeze(-1)
    return torch.where(weights > 0, tokens.double(), 0.0).sum(1) / weights.sum(1).clamp(min=1e-9)


def pool_cls(tokens: Tensor, mask: Tensor) -> Tensor:
    """First unmasked token (P81); with padding on the left that is not column 0."""
    return tokens.double()[torch.arange(len(tokens)), first_token(mask)]


def pool_last(tokens: Tensor, mask: Tensor) -> Tensor:
    """Last unmasked token (P82)."""
    return tokens.double()[torch.arange(len(tokens)), last_token(mask)]


def pool_max(tokens: Tensor, mask: Tensor) -> Tensor:
    """Largest value per channel over unmasked tokens."""
    return tokens.double().masked_fill(~mask.bool().unsqueeze(-1), -torch.inf).amax(1)


def pool_weighted(tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean weighted by position 1..n among unmasked tokens (P84)."""
    weights = (mask.long().cumsum(1) * mask.long()).double().unsqueeze(-1)
    return torch.where(weights > 0, tokens.double() * weights, 0.0).sum(1) / weights.sum(1).clamp(min=1e-9)


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": pool_mean,
    "cls": pool_cls,
    "last": pool_last,
    "lasttoken": pool_last,
    "max": pool_max,
    "weightedmean": pool_weighted,
}
WRONG_POOLING = {
    "mean": "cls",
    "cls": "mean",
    "last": "mean",
    "lasttoken": "mean",
    "max": "mean",
    "weightedmean": "cls",
}


def pooled_tokens(mask: Tensor, pooling: str) -> Tensor:
    """The tokens that a pooling uses, (batch, length), non-zero where used: one per text, or all real ones."""
    single = _SINGLE.get(pooling)
    if single is None:
        return mask
    return torch.zeros_like(mask).scatter_(1, single(mask).unsqueeze(1), 1)


def first_token(mask: Tensor) -> Tensor:
    """Column of the first unmasked token of each text."""
    return mask.long().argmax(1)


def last_token(mask: Tensor) -> Tensor:
    """Column of the last unmasked token of each text."""
    return mask.shape[1] - 1 - mask.long().flip(1).argmax(1)


_SINGLE: dict[str, Callable[[Tensor], Tensor]] = {"cls": first_token, "last": last_token, "lasttoken": last_token}


def pool(tokens: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Pooled vectors, (batch, width) fp64, not normalised. Raises ValueError on an unknown pooling."""
    if pooling not in POOLINGS:
        raise ValueError(f"unknown pooling {pooling!r}, known: {', '.join(POOLINGS)}")
    return POOLINGS[pooling](tokens, mask)


def lowest_cosine(candidate: Tensor, reference: Tensor) -> float:
    """Lowest cosine over rows of two (batch, width) tensors; NaN if any is NaN."""
    return _least(cosines(candidate, reference))


def lowest_centred_cosine(candidate: Tensor, reference: Tensor) -> float | None:
    """Lowest cosine over texts after taking the reference's mean from both sides. None below three texts (weak)."""
    if len(reference) < 3:
        return None
    mean = reference.double().mean(0)
    return lowest_cosine(candidate.double() - mean, reference.double() - mean)


def spearman(candidate: Tensor, reference: Tensor) -> float:
    """Rank correlation of the cosines of all pairs of texts, (texts, width) each. Raises ValueError below 3 texts."""
    if len(reference) < 3:
        raise ValueError(f"ranking needs at least 3 texts, got {len(reference)}")
    a, b = (_ranks(_pair_cosines(x)) for x in (candidate, reference))
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / (a.norm() * b.norm()).clamp(min=1e-300))


def _pair_cosines(vectors: Tensor) -> Tensor:
    unit = F.normalize(vectors.double(), dim=-1)
    left, right = zip(*itertools.combinations(range(len(vectors)), 2), strict=True)
    return (unit[list(left)] * unit[list(right)]).sum(-1)


def _ranks(values: Tensor) -> Tensor:
    """Ranks from 0, ties share their mean rank."""
    _, inverse, counts = values.unique(return_inverse=True, return_counts=True)
    ends = counts.cumsum(0).double()
    return (ends - (counts.double() + 1) / 2)[inverse]


def relative_error(candidate: Tensor, reference: Tensor, mask: Tensor) -> float:
    """Root mean square over tokens of |candidate - reference| / |reference|."""
    a, b = real_tokens(candidate, mask), real_tokens(reference, mask)
    return float(((a - b).norm(dim=-1) / b.norm(dim=-1).clamp(min=1e-300)).pow(2).mean().sqrt())


def error_ratio(candidate: Tensor, ideal: Tensor, reference: Tensor, mask: Tensor) -> float:
    """Error of the candidate over the error of the ideal DL16 run, both against the fp32 reference.

    The ideal error has a floor of 1e-6 (fp32 noise), so that two perfect runs give a ratio near 0, not 0/0.
    """
    return relative_error(candidate, reference, mask) / max(relative_error(ideal, reference, mask), 1e-6)


def lowest_company_cosine(alone: list[Tensor], batched: Tensor, mask: Tensor) -> float:
    """Batch independence: lowest token cosine between texts run alone, (1, n_i, width), and in company.

    Text i's n_i tokens are its unmasked columns in the batch, in order. Raises ValueError if counts differ.
    """
    lowest = []
    for i, single in enumerate(alone):
        company = batched[i][mask[i].bool()]
        if single.shape[1] != len(company):
            raise ValueError(f"text {i} has {single.shape[1]} tokens alone and {len(company)} in the batch")
        lowest.append(lowest_cosine(single[0], company))
    return _least(torch.tensor(lowest))
