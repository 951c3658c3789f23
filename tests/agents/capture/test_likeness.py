"""Blocks that did the same share a graph and keep their own tensors; blocks that differ in anything do not share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from agents.capture import model as capturing
from agents.capture.case import Case
from agents.capture.model import capture_stock

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
Change = Callable[[nn.Module], None]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The blocks that were exported."""
    found: list[Any] = []
    own = capturing._export
    monkeypatch.setattr(capturing, "_export", lambda site: found.append(site.module) or own(site))
    return found


def documents(change: Change, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The documents of the model with its second layer changed."""
    stock = capturing.fake_stock

    def changed(config: Any, mode: Any) -> nn.Module:
        model: Any = stock(config, mode)
        change(model.encoder.layer[1])
        return model

    monkeypatch.setattr(capturing, "fake_stock", changed)
    return capture_stock(CONFIG, [Case(2, 16, "float32"), Case(1, 9, "float32")])


def calls(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in document["skeleton"]["nodes"] if "call" in node]


def names(document: dict[str, Any], call: dict[str, Any]) -> list[str]:
    section = document["constants"]
    return [section["stock"][section["values"][n]["ref"]]["name"] for n in call["parameters"]]


def test_layers_that_are_alike_are_exported_once_for_each_shape(
    exported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for document in documents(lambda _: None, monkeypatch):
        assert len(document["graphs"]) == 1
        for number, call in enumerate(calls(document)):
            held = names(document, call)
            assert len(held) == 16
            assert all(name.startswith(f"encoder.layer.{number}.") for name in held)
    assert len(exported) == 2


def with_epsilon(layer: Any) -> None:
    layer.output.LayerNorm.eps = 1e-3


def with_another_activation(layer: Any) -> None:
    layer.intermediate.intermediate_act_fn = nn.ReLU()


def with_swapped_inputs(layer: Any) -> None:
    dense = layer.output.dense.forward
    layer.output.forward = lambda hidden, given: layer.output.LayerNorm(dense(hidden) - given)


CHANGES = [with_epsilon, with_another_activation, with_swapped_inputs]


@pytest.mark.parametrize("change", CHANGES, ids=[c.__name__ for c in CHANGES])
def test_a_layer_that_differs_has_a_graph_of_its_own(
    change: Change, exported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for document in documents(change, monkeypatch):
        assert len(document["graphs"]) == 2
        assert [call["call"] for call in calls(document)] == [0, 1, 0]
    assert len(exported) == 4
