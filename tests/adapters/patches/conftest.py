"""How a patch is tried: on an untouched copy, on the CPU, in fp32 or fp64, against stock in the same dtype."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from adapters import adapt

Difference = Callable[..., float]


@pytest.fixture
def difference(
    make_model: Callable[[str], nn.Module], inputs_for: Callable[[nn.Module], dict[str, torch.Tensor]]
) -> Difference:
    """Largest difference at real tokens between stock and patched, relative to stock's largest value."""

    def measure(
        family: str, patches: Sequence[Mapping[str, Any]], dtype: torch.dtype = torch.float64, **changed: Any
    ) -> float:
        model = make_model(family).to(dtype)
        values = {**inputs_for(model), **changed}
        with torch.no_grad():
            stock = copy.deepcopy(model)(**values).last_hidden_state
        with adapt(model, patches=patches, device="cpu", compile=False, dtype=dtype):
            patched = model(**values).last_hidden_state
        assert patched.shape == stock.shape
        real = values["attention_mask"].bool()
        return float((patched.to(dtype) - stock)[real].abs().max() / stock[real].abs().max())

    return measure
