"""What was changed comes back by identity, in reverse order, once."""

from __future__ import annotations

import torch
from torch import nn

from adapters.reversal import Reversal


def test_parameters_and_modules_return_by_identity_and_in_place() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    weight, child, order = model[0].weight, model[1], list(model._modules)
    undo = Reversal()
    undo.set_parameter(model[0], "weight", nn.Parameter(torch.zeros(2, 2)))
    undo.set_module(model, "1", nn.Tanh())
    undo.set_module(model, "1", nn.GELU())
    undo()
    assert model[0].weight is weight
    assert model[1] is child
    assert list(model._modules) == order


def test_an_attribute_of_the_class_becomes_the_class_s_again() -> None:
    model = nn.Linear(2, 2)
    undo = Reversal()
    undo.set_attribute(model, "forward", lambda x: x)
    undo()
    assert "forward" not in model.__dict__


def test_a_second_call_does_nothing() -> None:
    calls: list[int] = []
    undo = Reversal()
    undo.add(lambda: calls.append(1))
    undo()
    undo()
    assert calls == [1]
