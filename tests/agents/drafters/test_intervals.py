"""Enclosures hold the true value: checked against 60-digit arithmetic at drawn points, operator by operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from adapters.document import capture_module
from agents.drafters.rules.intervals import RULES, enclose

ROOT = math.sqrt(2 / math.pi)


class Written(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., object]]] = {
    "cancelling gelu": (
        lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**3))),
        lambda x: 0.5 * x * (1 + mpmath.tanh(mpmath.mpf(ROOT) * (x + mpmath.mpf(0.044715) * x**3))),
    ),
    "a difference of roots": (
        lambda x: torch.sqrt(x * x + 1) - x.abs(),
        lambda x: mpmath.sqrt(x * x + 1) - abs(x),
    ),
    "log of a sum": (lambda x: torch.log(1 + torch.exp(-x.abs())), lambda x: mpmath.log(1 + mpmath.exp(-abs(x)))),
    "a quotient": (lambda x: (x - 3) / (x * x + 2), lambda x: (x - 3) / (x * x + 2)),
    "inverse cube": (lambda x: (x.abs() + 1) ** -3, lambda x: (abs(x) + 1) ** -3),
    "erf gelu": (nn.functional.gelu, lambda x: x / 2 * mpmath.erfc(-x / mpmath.sqrt(2))),
    "silu": (nn.functional.silu, lambda x: x / (1 + mpmath.exp(-x))),
    "clamped": (lambda x: 2 - x.clamp(-1.5, 2.5), lambda x: 2 - min(max(x, mpmath.mpf(-1.5)), mpmath.mpf(2.5))),
    "chosen": (lambda x: torch.where(x > 1, x.rsqrt(), -x), lambda x: 1 / mpmath.sqrt(x) if x > 1 else -x),
}


@cache
def captured(name: str) -> dict[str, Any]:
    return capture_module(Written(FUNCTIONS[name][0]))


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=60, deadline=None, database=None)
@given(x=st.floats(-30, 30, allow_nan=False, allow_subnormal=False))
def test_the_true_value_lies_in_the_enclosure(name: str, x: float) -> None:
    found = enclose(captured(name), torch.tensor([x], dtype=torch.float64))
    with mpmath.workdps(60):
        true = FUNCTIONS[name][1](mpmath.mpf(x))
        assert mpmath.mpf(float(found.low)) <= true <= mpmath.mpf(float(found.high))


def test_enclosures_are_narrow_where_nothing_cancels_and_wide_where_it_does() -> None:
    found = enclose(captured("cancelling gelu"), torch.tensor([2.0, -7.5], dtype=torch.float64))
    width = (found.high - found.low) / found.high.abs()
    assert width[0] < 1e-14
    assert width[1] > 1e-7


def test_an_operator_without_a_rule_gives_no_enclosure() -> None:
    assert "aten.elu.default" not in RULES
    found = enclose(capture_module(nn.ELU()), torch.ones(2, dtype=torch.float64))
    assert bool(found.low.isnan().all())


def test_a_quotient_across_zero_gives_no_enclosure() -> None:
    quotient = capture_module(Written(lambda x: 1 / (x - x)))
    assert bool(enclose(quotient, torch.ones(1, dtype=torch.float64)).low.isnan().all())
