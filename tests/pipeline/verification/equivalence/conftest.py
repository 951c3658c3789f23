"""Documents of honest and wrong code on tiny models, captured once per session in a child without the device."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def load_twins() -> ModuleType:
    spec = importlib.util.spec_from_file_location("equivalence_twins", HERE / "twins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def twins() -> ModuleType:
    return load_twins()


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("twins") / "twins.json"
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    argv = [sys.executable, str(HERE / "twins.py"), str(out)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(out.read_text()))


@pytest.fixture(scope="session")
def model_of(twins: ModuleType) -> Callable[[str], Any]:
    """The stock model of a family with drawn weights, made once."""
    from agents.capture.weights import random_stock

    return cache(lambda family: random_stock(twins.CONFIGS[family], seed=11))
