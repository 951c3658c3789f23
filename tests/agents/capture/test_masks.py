"""Masks made by broadcasting are those that transformers makes with vmap, and nothing stays changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import Gemma3TextConfig, masking_utils

from agents.capture.case import Case
from agents.capture.masks import masks_by_broadcast
from agents.capture.model import capture_stock

SMALL: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 4, "use_bidirectional_attention": True,
    "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 64, "pad_token_id": 0,
    "bos_token_id": 2, "eos_token_id": 1,
}  # fmt: skip


def everyone(*_: Any) -> torch.Tensor:
    return torch.tensor(True)


def near(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return (query - key).abs() < 3


@pytest.mark.parametrize("rule", [everyone, near])
def test_a_rule_of_the_model_s_gives_the_same_mask(rule: Any) -> None:
    config = Gemma3TextConfig(**SMALL)
    config._attn_implementation = "eager"
    padding = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1]])
    given = {"config": config, "inputs_embeds": torch.zeros(2, 7, 32), "attention_mask": padding}
    given |= {"cache": None, "or_mask_function": rule}
    stock = masking_utils.create_causal_mask(**given)
    before = vars(masking_utils).copy()
    with masks_by_broadcast():
        found = masking_utils.create_causal_mask(**given)
    assert torch.equal(stock, found)
    assert vars(masking_utils) == before


def test_a_model_that_sees_both_ways_by_a_rule_of_its_own_is_captured() -> None:
    [document] = capture_stock({"model_type": "gemma3_text", **SMALL}, [Case(2, 8, "float32")])
    literals = [node for node in document["constants"]["nodes"] if node["op"] == "literal"]
    assert [True] in [node["args"][0] for node in literals]
