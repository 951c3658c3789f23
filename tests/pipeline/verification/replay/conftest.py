"""Documents of all families, captured once per session in a child without the device, as the product does."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from agents.capture.stock import stock_tensors
from agents.capture.weights import random_stock

HERE = Path(__file__).parent
Documents = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def families() -> ModuleType:
    spec = importlib.util.spec_from_file_location("replay_families", HERE / "families.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Documents:
    out = tmp_path_factory.mktemp("documents") / "documents.json"
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [sys.executable, str(HERE / "families.py"), str(out)], env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(out.read_text()))


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
