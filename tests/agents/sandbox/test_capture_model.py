"""A patched model becomes documents inside the sandbox, drafted code included, and runs there on random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from agents.capture.case import Case
from agents.capture.stock import stock_tensors
from agents.capture.weights import random_stock
from agents.errors import CandidateRefused
from agents.sandbox.capture_model import capture_model_in_sandbox, run_model_in_sandbox
from pipeline.verification.replay import ModelReplay, validate_model

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 140,
}
DOUBLED_TWICE_HALVED = """
def apply(model):
    for layer in model.encoder.layer:
        layer.output.dense.weight = torch.nn.Parameter(layer.output.dense.weight * 2 * 0.5, requires_grad=False)
"""
CODE = [{"pattern": "code", "parameters": {"source": DOUBLED_TWICE_HALVED}}]


@pytest.mark.sandbox
def test_drafted_code_is_captured_and_its_run_equals_the_replay_bit_for_bit() -> None:
    (document,) = capture_model_in_sandbox(CONFIG, CODE, [Case(2, 8, "float16")])
    tensors = stock_tensors(random_stock(CONFIG, seed=3))
    validate_model(document, tensors)
    ids = torch.arange(16).reshape(2, 8) + 5
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    outputs = load(run_model_in_sandbox(CONFIG, CODE, "float16", 3, save({f"0.{k}": v for k, v in inputs.items()})))
    assert torch.equal(outputs["0"], ModelReplay(document, tensors).run(inputs))


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def apply(model): raise ValueError('no')", "ValueError: no .drafted.py, line 1"),
        ("def other(model): pass", "defines no function"),
        ("import os\ndef apply(model): os._exit(0)", "gave no answer"),
    ],
)
def test_code_that_cannot_be_captured_is_refused_with_the_reason(source: str, reason: str) -> None:
    patches = [{"pattern": "code", "parameters": {"source": source}}]
    with pytest.raises(CandidateRefused, match=reason):
        capture_model_in_sandbox(CONFIG, patches, [Case(2, 8, "float16")])
