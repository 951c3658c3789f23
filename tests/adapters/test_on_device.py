"""On the simulated device: the patches together cure the real MiniLM, and each one left out shows its defect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel, AutoTokenizer

import sim_backend
from adapters import adapt

PATCHES: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}},
    {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}},
    {"pattern": "P54", "parameters": {}},
    {"pattern": "P61", "parameters": {}},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
]
TEXTS = ["hello world", "The quick brown fox jumps over the lazy dog near the river bank today."]


@pytest.fixture(scope="module")
def minilm(minilm_path: Path) -> nn.Module:
    assert sim_backend.current_profile().name == "profile-2026-08"
    return AutoModel.from_pretrained(minilm_path).eval()


@pytest.fixture(scope="module")
def batch(minilm_path: Path) -> dict[str, torch.Tensor]:
    return dict(AutoTokenizer.from_pretrained(minilm_path)(TEXTS, padding=True, return_tensors="pt"))


@pytest.fixture(autouse=True)
def fresh_counts() -> Iterator[None]:
    torch.spyre.reset_fallback_counts()
    yield
    torch.spyre.reset_fallback_counts()


def worst_cosine(model: nn.Module, batch: dict[str, torch.Tensor], patches: list[dict[str, Any]]) -> float:
    with torch.no_grad():
        stock = model(**batch).last_hidden_state
    with adapt(model, patches=patches, device="spyre"):
        patched = model(**batch).last_hidden_state
    real = batch["attention_mask"].bool()
    return float(nn.functional.cosine_similarity(patched, stock, dim=-1)[real].min())


def test_real_minilm_agrees_with_the_cpu_without_a_fallback(minilm: nn.Module, batch: dict[str, torch.Tensor]) -> None:
    assert worst_cosine(minilm, batch, PATCHES) > 0.9999
    assert torch.spyre.fallback_counts() == {}


def test_weights_are_on_the_device_and_return(minilm: nn.Module) -> None:
    weight = minilm.encoder.layer[0].intermediate.dense.weight
    with adapt(minilm, patches=PATCHES, device="spyre"):
        placed = minilm.encoder.layer[0].intermediate.dense.weight
        assert (placed.device.type, placed.dtype) == ("spyre", torch.float16)
        assert minilm.pooler.dense.weight.device.type == "cpu"
    assert minilm.encoder.layer[0].intermediate.dense.weight is weight


@pytest.mark.parametrize("pattern", ["P54", "P61", "P63"])
def test_leaving_a_patch_out_gives_wrong_values(
    pattern: str, minilm: nn.Module, batch: dict[str, torch.Tensor]
) -> None:
    assert worst_cosine(minilm, batch, [p for p in PATCHES if p["pattern"] != pattern]) < 0.99


@pytest.mark.filterwarnings("ignore::sim_backend.errors.FallbackWarning")
@pytest.mark.parametrize(
    ("pattern", "reason"), [("P20", "stick expression"), ("P56", "IEEE_FP32"), ("P40", "IEEE_INT32")]
)
def test_leaving_a_patch_out_is_refused_by_the_device(
    pattern: str, reason: str, minilm: nn.Module, batch: dict[str, torch.Tensor]
) -> None:
    with pytest.raises(RuntimeError, match=reason):
        worst_cosine(minilm, batch, [p for p in PATCHES if p["pattern"] != pattern])
    assert "forward" not in minilm.__dict__
