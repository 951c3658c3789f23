"""SymPy proves the identities of the pattern library and nothing that is false."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adapters.document import capture_module
from pipeline.verification.equivalence.symbolic import MAX_NODES, same_expression

from .written import Function, Written


def same(one: Function, other: Function) -> bool:
    return same_expression(capture_module(Written(one)), capture_module(Written(other)))


SAME: dict[str, tuple[Function, Function]] = {
    "tanh is a sigmoid": (torch.tanh, lambda x: 2 * torch.sigmoid(2 * x) - 1),
    "a cube": (lambda x: x**3, lambda x: x * x * x),
    "a square of an exponential": (lambda x: torch.exp(x) * torch.exp(x), lambda x: torch.exp(2 * x)),
    "an exponential of a polynomial": (
        lambda x: torch.sigmoid(3 * (x + 0.5 * x**3)),
        lambda x: 1 / (1 + torch.exp(-3 * x - 1.5 * (x * x * x))),
    ),
    "silu": (nn.functional.silu, lambda x: x - x * torch.sigmoid(-x)),
}
OTHER: dict[str, tuple[Function, Function]] = {
    "a sign": (torch.tanh, lambda x: 2 * torch.sigmoid(-2 * x) - 1),
    "a constant": (lambda x: 0.1 * x, lambda x: (0.1 + 1e-12) * x),
    "a term": (lambda x: x + x**2, lambda x: x * 1.0),
    "unrelated exponentials": (lambda x: torch.exp(x), lambda x: torch.exp(0.3333 * x)),
    "no rational form": (lambda x: torch.erf(x), lambda x: torch.erf(x)),
    "the other gelu": (nn.functional.gelu, lambda x: nn.functional.gelu(x, approximate="tanh")),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_identities_are_proved(one: Function, other: Function) -> None:
    assert same(one, other)


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER.keys())
def test_nothing_false_or_undecided_is_proved(one: Function, other: Function) -> None:
    assert not same(one, other)


def test_large_documents_are_left_to_the_values() -> None:
    def long(x: torch.Tensor) -> torch.Tensor:
        for _ in range(MAX_NODES + 1):
            x = x + 1
        return x

    assert not same(long, long)
