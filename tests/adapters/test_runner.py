"""Blocks are compiled as they are: with the forward that a patch gave an instance, else their class's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from adapters.rebinding import give
from adapters.reversal import Reversal
from adapters.runner import compile_blocks
from adapters.structure import Block


class Doubling(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def tripling(self: Any, x: torch.Tensor) -> torch.Tensor:
    return 3 * x


def test_a_patched_block_is_compiled_with_its_patch_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Callable[..., Any]] = []

    def compile_(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        compiled.append(function)
        return function

    monkeypatch.setattr(torch, "compile", compile_)
    modules, undo = [Doubling() for _ in range(4)], Reversal()
    for module in modules[2:]:
        give(undo, module, tripling)
    compile_blocks([Block(str(n), m) for n, m in enumerate(modules)], undo)
    assert len(compiled) == 2, "one function for each forward"
    assert [float(m(torch.ones(()))) for m in modules] == [2, 2, 3, 3]
    undo()
    assert [float(m(torch.ones(()))) for m in modules] == [2, 2, 2, 2]
