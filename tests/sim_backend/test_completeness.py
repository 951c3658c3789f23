"""One layer per kind finds what all layers find: five families at their default depth, every layer compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from sim_backend import capability
from sim_backend.compiler import fake_model
from sim_backend.report import CapabilityReport

FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: BertModel(BertConfig()),
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig()),
    "mpnet": lambda: MPNetModel(MPNetConfig()),
    "modernbert": lambda: ModernBertModel(ModernBertConfig()),
    "qwen3": lambda: Qwen3Model(Qwen3Config(use_cache=False)),
}

DEPTHS = {"bert": 12, "xlm-roberta": 12, "mpnet": 12, "modernbert": 22, "qwen3": 32}


@pytest.fixture(autouse=True, scope="module")
def inductor_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generated modules go to a folder of this test run."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
    yield
    patch.undo()


def report(family: str) -> CapabilityReport:
    with torch.device("meta"):
        model = FAMILIES[family]().eval()
    mask = torch.ones(2, 24, dtype=torch.long)
    mask[1, 20:] = 0
    inputs = {"input_ids": torch.full((2, 24), 5), "attention_mask": mask}
    return capability(model, inputs, "profile-2026-08", dtype=torch.float16)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", FAMILIES)
def test_one_layer_per_kind_finds_what_every_layer_finds(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    per_kind = report(family)
    number = itertools.count()
    monkeypatch.setattr(fake_model, "structure_of", lambda block: next(number))  # no two blocks are of one kind
    full = report(family)
    assert full == per_kind  # failures, predictions, fallbacks with their counts and layers; the fingerprint; kernels
    assert next(number) == DEPTHS[family]
    assert full.failures
    assert {f.layers for f in full.predicted if f.place == "block"}
