"""Documents replay element-wise modules exactly, from a dictionary of operators."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from transformers import activations

from adapters.document import build, capture_module, document_digest, validate
from adapters.document_ops import OPERATORS
from adapters.errors import DocumentRefused

CUBE = {
    "version": 1,
    "nodes": [
        {"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"ref": 0}]},
        {"op": "aten.mul.Tensor", "args": [{"ref": 1}, {"ref": 0}]},
    ],
    "output": {"ref": 2},
}
CLASSES = [
    activations.NewGELUActivation,
    activations.GELUActivation,
    activations.FastGELUActivation,
    activations.QuickGELUActivation,
    activations.AccurateGELUActivation,
    activations.SiLUActivation,
    activations.MishActivation,
    activations.LaplaceActivation,
    activations.ReLUSquaredActivation,
    activations.GELUTanh,
    nn.Tanh,
    nn.ReLU6,
    nn.Softplus,
    nn.Identity,
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_a_captured_module_replays_bit_for_bit(cls: type[nn.Module], dtype: torch.dtype) -> None:
    document = json.loads(json.dumps(capture_module(cls())))
    x = torch.linspace(-40, 40, 5121).to(dtype)
    assert torch.equal(build(document)(x), cls()(x))


def test_a_document_may_be_written_by_hand() -> None:
    x = torch.randn(4, 5)
    assert torch.equal(build(CUBE)(x), x * x * x)


def test_replay_compiles_without_a_graph_break() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    x = torch.randn(3, 4)
    compiled = torch.compile(build(CUBE), fullgraph=True, dynamic=False, backend=backend)
    assert torch.equal(compiled(x), x * x * x)
    assert len(graphs) == 1


def test_capture_reads_no_value() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(DocumentRefused, match="cannot be exported"):
        capture_module(Branches())


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Linear(4, 4), "parameters"),
        (nn.Softmax(dim=-1), "not allowed"),
        (nn.LayerNorm(4, elementwise_affine=False), "not allowed"),
    ],
    ids=["linear", "softmax", "layer_norm"],
)
def test_modules_that_are_not_element_wise_are_refused(module: nn.Module, reason: str) -> None:
    with pytest.raises(DocumentRefused, match=reason):
        capture_module(module, torch.empty(2, 4))


def test_capture_drops_dead_nodes() -> None:
    class Wasteful(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.exp(x)
            return x * 2

    assert len(capture_module(Wasteful())["nodes"]) == 1


def test_every_allowed_operator_is_functional_and_deterministic() -> None:
    for name, op in OPERATORS.items():
        assert not op._schema.is_mutable, name
        assert torch.Tag.nondeterministic_seeded not in op.tags, name
        assert name == str(op)


def test_digest_is_of_the_content() -> None:
    assert document_digest(CUBE) == document_digest(json.loads(json.dumps(CUBE)))
    assert validate(CUBE) is CUBE
