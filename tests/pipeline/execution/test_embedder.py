"""The stock embedder pools as sentence-transformers does."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from pipeline.catalogue.folder import _POOLING_MODES
from pipeline.execution.embedder import POOLINGS, StockEmbedder

TOKENS = torch.randn(3, 7, 16, generator=torch.Generator().manual_seed(3))
MASKS = {
    "right": torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]]),
    "left": torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]]),
}


@pytest.mark.parametrize("side", MASKS)
@pytest.mark.parametrize("mode", [mode for mode in POOLINGS if mode != "last"])
def test_pooling_equals_sentence_transformers(mode: str, side: str) -> None:
    theirs = Pooling(16, pooling_mode=mode)({"token_embeddings": TOKENS, "attention_mask": MASKS[side]})
    assert torch.equal(POOLINGS[mode](TOKENS, MASKS[side]), theirs["sentence_embedding"])


def test_every_pooling_that_a_catalogue_row_can_declare_can_be_run() -> None:
    assert set(_POOLING_MODES) <= set(POOLINGS)


class Fixed(nn.Module):
    def forward(self, **_: torch.Tensor) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=TOKENS)


def test_normalised_embeddings_have_unit_length() -> None:
    embedded = StockEmbedder(Fixed(), "mean", True)(attention_mask=MASKS["right"])
    assert torch.allclose(embedded.norm(dim=1), torch.ones(3))
    assert not torch.allclose(
        StockEmbedder(Fixed(), "mean", False)(attention_mask=MASKS["right"]).norm(dim=1), torch.ones(3)
    )
