"""The calibration batch and the self-check's batch: random texts of unequal length."""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.verification.parts import pad_id, plain_ids
from pipeline.weights.synthetic.draw import stream_for
from pipeline.weights.synthetic.recipe import CHECK_LENGTHS, LENGTHS


def calibration_batch(config: object, vocabulary: int, seed: int, side: str = "right") -> dict[str, Tensor]:
    """Four random texts of 32, 24, 16 and 8 tokens, padded on `side`: input_ids and attention_mask, (4, 32) int64.

    `side` is "left" for causal models, whose real tokens would otherwise never see a pad.
    """
    return _texts(config, vocabulary, seed, side, "batch", LENGTHS)


def check_batch(config: object, vocabulary: int, seed: int, side: str = "right") -> dict[str, Tensor]:
    """Six other texts of 5 to 40 tokens for the rounding self-check, in the same form, (6, 40)."""
    return _texts(config, vocabulary, seed, side, "check", CHECK_LENGTHS)


def _texts(
    config: object, vocabulary: int, seed: int, side: str, name: str, lengths: tuple[int, ...]
) -> dict[str, Tensor]:
    ids = plain_ids(config, vocabulary)
    generator = stream_for(seed, name)
    tokens = torch.full((len(lengths), max(lengths)), pad_id(config))
    mask = torch.zeros_like(tokens)
    for row, length in enumerate(lengths):
        columns = slice(0, length) if side == "right" else slice(tokens.shape[1] - length, None)
        tokens[row, columns] = ids[torch.randint(len(ids), (length,), generator=generator)]
        mask[row, columns] = 1
    return {"input_ids": tokens, "attention_mask": mask}
