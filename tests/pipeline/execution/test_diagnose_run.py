"""The model in which silent causes are looked for has the loud ones cured, in the order in which they are applied."""

from __future__ import annotations

import torch
from transformers import ModernBertConfig, ModernBertModel

import adapters
from agents.types import Diagnosis, Failure, FailureKind, PatternUse
from pipeline.execution.diagnose_run import cures


def named(*uses: PatternUse) -> Diagnosis:
    failure = Failure(FailureKind.LAYOUT, op="aten.view.default", source="x.py:1", module="attn", message="")
    return Diagnosis(failure, uses)


def test_a_fused_projection_is_split_before_its_heads_are_padded() -> None:
    config = ModernBertConfig(
        vocab_size=100, hidden_size=64, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2,
        pad_token_id=0, max_position_embeddings=64,
    )  # fmt: skip
    model = ModernBertModel(config).eval()
    found = cures(
        [
            named(PatternUse("P21", {"head_dim": 32, "padded_head_dim": 64}), PatternUse("P56", {"dtype": "float16"})),
            named(PatternUse("P14"), PatternUse("P80", {"placement": "host"})),
            named(PatternUse("P27")),
            named(PatternUse("P27")),
        ]
    )
    assert [patch["pattern"] for patch in found] == ["P27", "P21", "P14"]
    with adapters.adapt(model, patches=found, device="cpu", dtype=torch.float32, compile=False):
        assert model(input_ids=torch.ones(1, 5, dtype=torch.int64)).last_hidden_state.isfinite().all()
