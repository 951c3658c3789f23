"""Documents of honest and wrong code on tiny models, captured once per session in a child without the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from ..captured import captured_by
from . import twins as honest_and_wrong


@pytest.fixture(scope="session")
def twins() -> ModuleType:
    return honest_and_wrong


@pytest.fixture(scope="session")
def documents(twins: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return captured_by(twins, tmp_path_factory.mktemp("twins") / "twins.json")


@pytest.fixture(scope="session")
def model_of(twins: ModuleType) -> Callable[[str], Any]:
    """The stock model of a family with drawn weights, made once."""
    from agents.capture.weights import random_stock

    return cache(lambda family: random_stock(twins.CONFIGS[family], seed=11))
