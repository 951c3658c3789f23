"""P99: embeddings that refuse more tokens than positions take padded lengths, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import adapters
from adapters.errors import PatchConflict, PatchDoesNotApply, ShapeRefused
from adapters.patches.registry import patch_from

from .families import CONFIGS, built

CLIP = {**CONFIGS["clip_text_model"], "max_position_embeddings": 77}
P63, P99 = {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}}, {"pattern": "P99"}
ON_CPU: dict[str, Any] = {"device": "cpu", "compile": False, "dtype": torch.float64}


def text(length: int) -> torch.Tensor:
    """Ids [2, length] that end in the model's end token."""
    ids = torch.randint(5, 98, (2, length), generator=torch.Generator().manual_seed(length))
    ids[:, -1] = 99
    return ids


@pytest.mark.parametrize("length", [3, 64, 65, 77])
def test_padded_lengths_give_the_same_answer(length: int) -> None:
    model = built("clip_text_model", CLIP)
    stock = model.double()(input_ids=text(length)).last_hidden_state
    with adapters.adapt(model.float(), patches=[P99, P63], **ON_CPU):
        patched = model(input_ids=text(length)).last_hidden_state
    assert patched.shape == stock.shape
    assert (patched - stock).abs().max() < 1e-6


def test_without_it_they_are_refused() -> None:
    model = built("clip_text_model", CLIP)
    with adapters.adapt(model, patches=[P63], **ON_CPU), pytest.raises(ValueError, match="max_position_embeddings"):
        model(input_ids=text(77))


def test_the_longest_text_stays_and_the_table_comes_back() -> None:
    model = built("clip_text_model", CLIP)
    before = dict(model.named_parameters())
    handle = adapters.adapt(model, patches=[P99, P63], **ON_CPU)
    with pytest.raises(ShapeRefused, match="77"):
        model(input_ids=text(78))
    handle.undo()
    assert all(before[name] is parameter for name, parameter in model.named_parameters())


@pytest.mark.parametrize(
    ("name", "config"), [("clip_text_model", {**CLIP, "max_position_embeddings": 128}), ("bert", CONFIGS["bert"])]
)
def test_where_nothing_is_refused_it_does_not_apply(name: str, config: dict[str, Any]) -> None:
    with pytest.raises(PatchDoesNotApply, match="P99"):
        patch_from(P99).match(built(name, config))


def test_it_stands_beside_the_padding_of_lengths() -> None:
    with pytest.raises(PatchConflict, match="needs P63"):
        adapters.adapt(built("clip_text_model", CLIP), patches=[P99], **ON_CPU)
