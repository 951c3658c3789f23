"""Pooling agrees with sentence-transformers for every mode and padding side."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from adapters import embedding

MASKS = {
    "right": torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]]),
    "left": torch.tensor([[0, 1, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]]),
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken", "max", "mean_sqrt_len_tokens", "weightedmean"])
def test_pooling_agrees_with_sentence_transformers(mode: str, side: str) -> None:
    hidden = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1))
    mask = MASKS[side]
    features = {"token_embeddings": hidden, "attention_mask": mask}
    expected = Pooling(5, pooling_mode=mode)(features)["sentence_embedding"]
    assert torch.allclose(embedding.pool(hidden, mask, mode), expected, atol=1e-6)


def test_pads_do_not_count_in_the_mean() -> None:
    hidden = torch.ones(1, 3, 2)
    hidden[0, 2] = 1e6
    assert torch.equal(embedding.mean(hidden, torch.tensor([[1, 1, 0]])), torch.ones(1, 2))


def test_half_precision_does_not_overflow() -> None:
    hidden = torch.full((1, 512, 2), 300.0, dtype=torch.float16)
    assert torch.equal(embedding.embed(hidden, torch.ones(1, 512), normalised=False), torch.full((1, 2), 300.0))


def test_normalised_vectors_have_length_one_and_zero_stays_zero() -> None:
    vectors = embedding.normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert torch.equal(vectors, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(ValueError, match="pooling 'sum'"):
        embedding.pool(torch.ones(1, 1, 1), torch.ones(1, 1), "sum")
