"""Whole models in one graph on the ideal device: the compiler itself adds no error."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel, MPNetConfig, MPNetModel

SIZES = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "vocab_size": 200,
}
MODELS = {
    "bert": lambda: BertModel(BertConfig(**SIZES)),
    "bert with gelu_new": lambda: BertModel(BertConfig(**SIZES, hidden_act="gelu_new")),
    "bert with eager attention": lambda: BertModel(BertConfig(**SIZES, attn_implementation="eager")),
    "albert": lambda: AlbertModel(AlbertConfig(**SIZES, embedding_size=32)),
    "mpnet": lambda: MPNetModel(MPNetConfig(**SIZES)),
}


def hidden_states(model: torch.nn.Module, device: str) -> torch.Tensor:
    ids = torch.randint(5, 200, (2, 20), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[1, 15:] = 0
    inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
    result: torch.Tensor = model(**inputs).last_hidden_state.cpu().float()
    return result[mask.bool()]


FP16 = [pytest.param(name, torch.float16, 0.05, marks=() if name == "bert" else pytest.mark.long) for name in MODELS]


@pytest.mark.parametrize(("name", "dtype", "tolerance"), [(name, torch.float32, 5e-6) for name in MODELS] + FP16)
def test_a_model_equals_the_cpu(name: str, dtype: torch.dtype, tolerance: float, use: Any) -> None:
    use("profile-ideal")
    torch.manual_seed(0)
    stock = MODELS[name]().eval().requires_grad_(False)
    compiled = torch.compile(copy.deepcopy(stock).to(dtype).to("spyre"), dynamic=False)
    torch.testing.assert_close(hidden_states(compiled, "spyre"), hidden_states(stock, "cpu"), atol=tolerance, rtol=0)
