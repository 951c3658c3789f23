"""Writes to a part of a tensor stand in a document as functional operators that give the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from agents.capture.case import Case
from agents.capture.errors import CaptureRefused
from agents.capture.graphs import export
from agents.capture.model import capture_stock
from agents.capture.stock import build_model, config_of, stock_tensors
from pipeline.verification.replay import validate_model

QWEN3_VL: dict[str, Any] = {
    "model_type": "qwen3_vl_text", "architectures": ["Qwen3VLTextModel"], "vocab_size": 100, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "max_position_embeddings": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]},
}  # fmt: skip


class Does(nn.Module):
    """A function of one tensor [3, 4, 6] as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def every_third(x: Tensor) -> Tensor:
    """As axes of positions are woven into one another: later reads see what was written to the first."""
    y = x * 2
    first = y[0]
    for axis in (1, 2):
        first[..., axis:6:3] = y[axis, ..., axis:6:3]
    return torch.cat((first, first), -1) + y.sum(0).repeat(1, 2)


def adds_to_a_row(x: Tensor) -> Tensor:
    y = x + 1
    turned = y.transpose(0, 1)
    y[1] += 3.0
    return turned * 2 + y.transpose(0, 1)


def reads_before(x: Tensor) -> Tensor:
    y = x + 1
    before = y * 1
    y[:, 1:3].mul_(0.5)
    return before - y


@pytest.mark.parametrize("function", [every_third, adds_to_a_row, reads_before])
def test_a_write_to_a_part_gives_the_same_values(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(3, 4, 6)
    exported = export(Does(function), (x,))
    assert not any(node.op == "call_function" and node.target._schema.is_mutable for node in exported.graph.nodes)
    found = fx.GraphModule({}, exported.graph)(x)[0]
    assert torch.equal(found, function(x))


def through_a_copy(x: Tensor) -> Tensor:
    """`reshape` gives the memory itself or a copy of it: which, no graph says."""
    y = x + 1
    other = y.reshape(-1)
    y[0] += 1.0
    return other


def to_what_was_given(x: Tensor) -> Tensor:
    x[0] += 1.0
    return x * 2


def in_another_order(x: Tensor) -> Tensor:
    y = x + 1
    y.transpose(0, 1)[0] += 1.0
    return y


@pytest.mark.parametrize("function", [through_a_copy, to_what_was_given, in_another_order])
def test_a_write_that_cannot_be_followed_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CaptureRefused, match="writes to memory that others read"):
        export(Does(function), (torch.randn(3, 4, 6),))


def test_a_model_that_weaves_axes_of_positions_is_captured() -> None:
    """Qwen3-VL writes two axes into the first one's table."""
    [document] = capture_stock(QWEN3_VL, [Case(2, 8, "float32")])
    validate_model(document, stock_tensors(build_model(config_of(QWEN3_VL))), placed=False)
    assert "aten.slice_scatter.default" in {node["op"] for node in document["skeleton"]["nodes"] if "op" in node}
