"""New patterns on the simulated device: small models of whole sticks agree with the CPU, fallbacks named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import sim_backend
from adapters import adapt
from adapters.patches.registry import in_order
from tests.adapters.patches.families import AXES, CONFIGS, IDS, SIZES, family
from tests.adapters.patches.test_families import P, inputs_of

WHOLE = {**SIZES, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 256}
MODELS: dict[str, dict[str, Any]] = {
    "bert": {**SIZES, "hidden_size": 72, "intermediate_size": 100, "pad_token_id": 0},
    "convbert": {
        **WHOLE, "hidden_size": 256, "num_attention_heads": 4, "embedding_size": 128, "head_ratio": 2,
        "conv_kernel_size": 9, "pad_token_id": 0,
    },
    "clip_text_model": {**WHOLE, **IDS, "eos_token_id": 99, "hidden_act": "quick_gelu"},
    "lfm2": {
        **WHOLE, **IDS, "num_key_value_heads": 1, "layer_types": ["conv", "full_attention"], "conv_L_cache": 3,
        "block_auto_adjust_ff_dim": False,
    },
    "deberta-v2": {
        **WHOLE, "pad_token_id": 0, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 32,
        "max_relative_positions": 64, "share_att_key": True, "norm_rel_ebd": "layer_norm", "type_vocab_size": 0,
        "position_biased_input": False, "conv_kernel_size": 3, "conv_act": "gelu",
    },
    "qwen3_vl_text": {
        **WHOLE, **IDS, "num_key_value_heads": 2, "head_dim": 128,
        "rope_parameters": {**AXES, "mrope_section": [24, 20, 20], "mrope_interleaved": True},
    },
}  # fmt: skip
ROTARY = [P("P14"), P("P45"), P("P10")]
SETS: dict[str, list[dict[str, Any]]] = {
    "bert": [
        P("P22", size=100, padded=128), P("P20", head_dim=18, padded_head_dim=64), P("P23", size=72, padded=128),
        P("P40"), P("P54"),
    ],
    "convbert": [P("P51"), P("P40")],
    "clip_text_model": [P("P40"), P("P32"), P("P54")],
    "lfm2": [P("P51"), P("P55"), *ROTARY],
    "deberta-v2": [P("P49"), P("P51")],
    "qwen3_vl_text": [*ROTARY, P("P54")],
}  # fmt: skip
EVERY = [P("P56", dtype="float16"), P("P30"), P("P61"), P("P63", multiple=64)]
FALLBACKS = {"lfm2": {"aten.repeat.default"}}
"""P55 repeats its mask on the CPU."""
SLOW = ("lfm2", "deberta-v2", "qwen3_vl_text")


@pytest.fixture(autouse=True)
def fresh_counts() -> Iterator[None]:
    assert sim_backend.current_profile().name == "profile-2026-08"
    torch.spyre.reset_fallback_counts()
    yield
    torch.spyre.reset_fallback_counts()


@pytest.mark.filterwarnings("ignore::sim_backend.errors.FallbackWarning")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n in SLOW else n for n in MODELS])
def test_a_small_model_agrees_with_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONFIGS, name, MODELS[name])
    model = family(name)
    values = inputs_of(model)
    with torch.no_grad():
        stock = model(**values).last_hidden_state
    with adapt(model, patches=in_order([*EVERY, *SETS[name]]), device="spyre"):
        patched = model(**values).last_hidden_state
    real = values["attention_mask"].bool()
    assert float(nn.functional.cosine_similarity(patched, stock, dim=-1)[real].min()) > 0.999
    assert set(torch.spyre.fallback_counts()) <= FALLBACKS.get(name, set())
