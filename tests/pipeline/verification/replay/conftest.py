"""Documents of all families, captured once per session in a child without the device, as the product does."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from agents.capture.stock import stock_tensors
from agents.capture.weights import random_stock

from ..captured import captured_by
from . import families as all_families

Documents = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def families() -> ModuleType:
    return all_families


@pytest.fixture(scope="session")
def documents(families: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Documents:
    return captured_by(families, tmp_path_factory.mktemp("documents") / "documents.json")


@pytest.fixture
def model_of(families: ModuleType) -> Callable[[str], Any]:
    """The stock model: MiniLM with its real weights, the others with random ones."""

    def make(name: str) -> Any:
        if name != "minilm":
            return random_stock(families.CONFIGS[name], seed=11)
        from pipeline.execution.models import load_weights

        return load_weights(families.minilm_folder())

    return make


@pytest.fixture(scope="session")
def minilm_tensors(families: ModuleType) -> dict[str, torch.Tensor]:
    """The stock tensors of the real MiniLM; nobody may change them."""
    from pipeline.execution.models import load_weights

    return stock_tensors(load_weights(families.minilm_folder()))


@pytest.fixture
def tensors_of() -> Callable[[Any], dict[str, torch.Tensor]]:
    return stock_tensors


@pytest.fixture
def batch() -> Callable[..., dict[str, torch.Tensor]]:
    """Random ids above all special ones, the last row half padding."""

    def make(rows: int, length: int, seed: int = 5) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(5, 100, (rows, length), generator=generator)
        mask = torch.ones_like(ids)
        mask[-1, length // 2 :] = 0
        return {"input_ids": ids * mask, "attention_mask": mask}

    return make
