"""What is wrong only fused is named in the smallest graph that shows it: two operations, then the path between them."""

from __future__ import annotations

import pytest
import torch

from pipeline.diagnosis.wrong_values.blocks import BlockCall, BlockGraph, graph_of
from pipeline.diagnosis.wrong_values.compare import Difference
from pipeline.diagnosis.wrong_values.fusion import smallest_wrong
from pipeline.diagnosis.wrong_values.programs import Program

RIGHT, WRONG = Difference(0.001, 0.001), Difference(0.5, 0.001)


class Block(torch.nn.Module):
    """sin, exp, tanh in a row, and beside them a chain that nothing of it reads."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        wave = torch.sin(x)
        beside = torch.sigmoid(torch.sqrt(y))
        return torch.tanh(torch.exp(wave)) + beside


def graph() -> BlockGraph:
    x, y = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)), torch.full((2, 3), 2.0)
    return graph_of(BlockCall("layers.0", Block(), (x, y), {}, torch.zeros(2, 3)))


def ops(program: Program) -> list[str]:
    return [o.op.split(".")[1] for o in program.operations]


def wrong_with(*needed: str):
    """A device on which tanh is wrong in every graph that holds the needed operations too."""

    def differences(self: Program) -> list[Difference]:
        spoiled = {"tanh", *needed} <= set(ops(self))
        names = {o.name: o.op.split(".")[1] for o in self.operations}
        return [WRONG if spoiled and names[n] in ("tanh", "add") else RIGHT for n in self.outputs]

    return differences


@pytest.mark.parametrize(
    ("needed", "kept"),
    [(("sin",), ["sin", "tanh"]), (("sin", "exp"), ["sin", "exp", "tanh"]), (("sqrt", "exp"), ["sqrt", "sigmoid"])],
)
def test_the_smallest_graph_that_shows_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, needed: tuple[str, ...], kept: list[str]
) -> None:
    monkeypatch.setattr(Program, "differences", wrong_with(*needed))
    block = graph()
    found = smallest_wrong(block, 0, len(block.operations))
    assert found is not None
    assert found.operation.op == "aten.tanh.default"
    assert found.partner is not None
    assert ops(found.program)[: len(kept)] == kept
    if needed[0] == "sin":
        assert ops(found.program) == kept
