"""The fp64 oracle: equal mathematics passes whatever its order, near mathematics does not."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from pipeline.verification.gate import Outcome, Tier, judge
from pipeline.verification.measurements import ElementwiseResult, Measurements
from pipeline.verification.oracle import compare_elementwise

ROOT = math.sqrt(2 / math.pi)


class Doc(nn.Module):
    """A stand-in for a document's graph module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def gelu_new() -> nn.Module:
    from transformers.activations import NewGELUActivation

    return NewGELUActivation()


def tanh_form(x: torch.Tensor, factor: float = 0.044715) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(ROOT * (x + factor * x * x * x)))


EQUAL = {
    "products": tanh_form,
    "grouped": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * x * (1 + 0.044715 * x * x))),
    "sigmoid": lambda x: x * torch.sigmoid(2 * ROOT * (x + 0.044715 * x * x * x)),
}
WRONG = {
    "erf": nn.functional.gelu,
    "factor": lambda x: tanh_form(x, 0.44715),
    "last digit of the factor": lambda x: tanh_form(x, 0.0447151),
    "absolute value to the fourth": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x.abs() ** 4))),
    "zero": torch.zeros_like,
    "identity": lambda x: x * 1.0,
    "nan": lambda x: x * torch.nan,
    "another input": lambda x: tanh_form(x) + 0 * x.flip(-1).nan_to_num(0, 0, 0) + 1e-9 * x.flip(-1),
    "fp32": lambda x: tanh_form(x.float()).double(),
}


def refused(result: ElementwiseResult, good_set: Callable[..., Measurements]) -> bool:
    return judge(good_set(elementwise=(result,), documents=1), Tier.FULL).outcome is Outcome.FAILED


@pytest.mark.parametrize("function", EQUAL.values(), ids=EQUAL.keys())
def test_the_same_mathematics_in_another_order_is_exact(
    function: Callable[[torch.Tensor], torch.Tensor], good_set: Callable[..., Measurements]
) -> None:
    result = compare_elementwise("P01", gelu_new(), Doc(function), seed=5)
    assert not refused(result, good_set), result
    assert result.points > 10_000


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG.keys())
def test_near_mathematics_is_refused(
    function: Callable[[torch.Tensor], torch.Tensor], good_set: Callable[..., Measurements]
) -> None:
    assert refused(compare_elementwise("P01", gelu_new(), Doc(function), seed=5), good_set)


def test_a_bounded_claim_is_held_to_its_bound(good_set: Callable[..., Measurements]) -> None:
    near = Doc(lambda x: nn.functional.gelu(x) * (1 + 1e-8))
    assert not refused(compare_elementwise("P03", nn.GELU(), near, bound=1e-7), good_set)
    assert refused(compare_elementwise("P03", nn.GELU(), near, bound=1e-9), good_set)
    assert refused(compare_elementwise("P03", nn.GELU(), near), good_set)


def test_the_real_document_of_products_is_exact(good_set: Callable[..., Measurements]) -> None:
    from adapters.document import build, capture_module
    from adapters.patches.powers import rewrite_powers

    document = build(rewrite_powers(capture_module(gelu_new())))
    assert not refused(compare_elementwise("P01", gelu_new(), document, seed=9), good_set)


def test_modules_are_left_as_they_were() -> None:
    stock = nn.PReLU()
    compare_elementwise("P05", stock, nn.PReLU())
    assert stock.weight.dtype is torch.float32
