"""Documents without powers: products and roots by the rules of P01, the same function."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import activations

from adapters.document import build, capture_module
from agents.drafters.rules.documents import without_powers


def has_powers(document: dict[str, Any]) -> bool:
    return any(node["op"] in ("aten.pow.Tensor_Scalar", "aten.square.default") for node in document["nodes"])


@pytest.mark.parametrize("exponent", [2, 3.0, 4, 5, 7, 8, 0.5, -0.5, -1.0])
def test_rewritten_powers_are_the_same_function(exponent: float) -> None:
    class Power(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.pow(x, exponent) + x

    document = capture_module(Power())
    free = without_powers(document)
    x = torch.rand(1000, dtype=torch.float64) * 6 + 0.01
    assert has_powers(document)
    assert not has_powers(free)
    assert torch.allclose(build(free)(x), build(document)(x), rtol=1e-14, atol=0)


def test_powers_that_are_not_products_stay() -> None:
    class Power(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.pow(x, 1.7)

    assert has_powers(without_powers(capture_module(Power())))


def test_gelu_new_without_powers_keeps_negative_inputs() -> None:
    free = without_powers(capture_module(activations.NewGELUActivation()))
    x = torch.linspace(-40, 40, 5121, dtype=torch.float64)
    assert torch.allclose(build(free)(x), activations.NewGELUActivation()(x), rtol=1e-12, atol=1e-15)
