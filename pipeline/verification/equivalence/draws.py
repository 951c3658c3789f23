"""What block graphs are compared on: host inputs, activations with edge cases, and weights that let small terms show.

Activations are those a 16-bit run can hold. Rows of one tensor are of different kinds, since attention mixes them:
ordinary ones, a ladder of scales down to 1e-8 where an epsilon decides, zero, constant and offset rows. Outlier
channels and large scores are tensors of their own, for they would hide the rest. Scores stay below what the dtype probe
admits for fp16 (P56: 65504 / 8): beyond it an additive mask is no mask any more, for stock neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

SCORE_LIMIT = 65504 / 8
LADDER = 9
"""Scales 1, 1e-1 to 1e-8 of rows in turn."""

OUTLIER, OUTLIERS = 100.0, 3
OFFSET = 1000.0
"""Mean of rows with a deviation of about 1: a variance in one pass cancels there."""

QUIET = 2.0**-30
"""Factor on every parameter of quiet weights: sums of branches vanish, what stays is the norms and their epsilon."""

KINDS = ("rows", "outliers", "large")


class Tokens(NamedTuple):
    """Token ids that may be drawn, the id of padding, how many token types there are, whether masks are causal, and the
    size of the whole vocabulary."""

    ids: Tensor
    pad: int
    types: int = 1
    causal: bool = False
    vocabulary: int = 0


def generator_of(seed: int) -> torch.Generator:
    """A CPU generator of its own for one draw."""
    return torch.Generator().manual_seed(seed % (1 << 63))


def draw_inputs(names: tuple[str, ...], batch: int, length: int, tokens: Tokens, seed: int) -> dict[str, Tensor]:
    """Host inputs int64 [batch, length]: the first text has all tokens, the second one, the others some.

    Padding is on either side in turn; in causal models first on the left, since padding on the right is never seen
    there. Raises KeyError for an input that cannot be drawn.
    """
    generator = generator_of(seed)
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    lengths[0], lengths[1:2] = length, 1
    place = torch.arange(length)[None]
    on_left = (torch.arange(batch) % 2 == int(tokens.causal))[:, None]
    mask = torch.where(on_left, place >= length - lengths[:, None], place < lengths[:, None]).long()
    ids = tokens.ids[torch.randint(len(tokens.ids), (batch, length), generator=generator)]
    drawn = {
        "input_ids": torch.where(mask.bool(), ids, tokens.pad),
        "attention_mask": mask,
        "token_type_ids": torch.randint(tokens.types, (batch, length), generator=generator) * mask,
    }
    return {name: drawn[name] for name in names}


def whole_vocabulary(names: tuple[str, ...], batch: int, length: int, vocabulary: int) -> Iterator[dict[str, Tensor]]:
    """Host inputs int64 [batch, length] without padding in which every token id stands once; the last are repeated."""
    for first in range(0, vocabulary, batch * length):
        ids = torch.arange(first, first + batch * length).clamp(max=vocabulary - 1).reshape(batch, length)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
        yield {name: given[name] for name in names}


def draw_stream(kind: str, shape: tuple[int, ...], scale: float, seed: int) -> Tensor:
    """Activations fp64 [batch, length, width] of one of KINDS; `scale` is the root mean square of the model's own."""
    generator = generator_of(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    if kind == "outliers":
        channels = torch.randperm(shape[-1], generator=generator)[:OUTLIERS]
        x[..., channels] *= OUTLIER
    if kind == "large":
        x *= OUTLIER
    if kind == "rows":
        x *= 10.0 ** -(torch.arange(shape[1]) % LADDER).double()[None, :, None]
        x[:, 1::13] = 0.0
        x[:, 2::13] = 1.0
        x[:, 3::13] = x[:, 3::13] / x[:, 3::13].abs().amax(-1, keepdim=True) + OFFSET
    return x


def nudged(x: Tensor, seed: int) -> Tensor:
    """`x` with every value moved by up to four units in the last place: what rounding alone may do to it."""
    noise = torch.rand(x.shape, generator=generator_of(seed), dtype=torch.float64) * 2 - 1
    return x * (1 + noise * 4 * torch.finfo(torch.float64).eps)


def quiet_weights(tensors: Mapping[str, Tensor], parameters: frozenset[str]) -> dict[str, Tensor]:
    """The stock tensors with parameters at 2^-30 of themselves; buffers are the model's constants and stay."""
    return {name: t * QUIET if name in parameters else t for name, t in tensors.items()}
