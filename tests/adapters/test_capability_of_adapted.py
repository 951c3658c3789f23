"""A capability report of an adapted model is of the adapted model, not of the stock one that its copies are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

from adapters import adapt
from sim_backend.capabilities import capability

SET = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}},
    {"pattern": "P40", "parameters": {}},
    {"pattern": "P63", "parameters": {}},
]


@pytest.mark.parametrize("whole", [BertModel, BertForSequenceClassification])
def test_an_adapted_model_on_meta_is_reported_with_its_patches(whole: Any) -> None:
    config = BertConfig(hidden_size=128, num_attention_heads=4, num_hidden_layers=1, intermediate_size=128)
    with torch.device("meta"):
        model = whole(config).eval()
    inputs = {name: torch.ones(2, 40, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    stock = capability(model, inputs, "profile-2026-08", dtype=torch.float16)
    with adapt(model, patches=SET, device="spyre", compile=False):
        adapted = capability(model, inputs, "profile-2026-08")
        assert "__deepcopy__" in model.base_model.__dict__
    assert [f.op for f in stock.failures if "view" in f.op]
    assert adapted.failures == ()
