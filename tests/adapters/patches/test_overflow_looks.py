"""P66: T5's blocks without their look for infinities, which stock has in float16 only."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from adapters.errors import PatchDoesNotApply
from adapters.patches.base import PatchContext
from adapters.patches.registry import patch_from
from adapters.structure import find_blocks
from tests.adapters.patches.families import family


def test_a_block_in_float16_computes_what_it_did_and_asks_for_no_infinities() -> None:
    model: Any = family("t5").half()
    block, x = find_blocks(model)[0].module, torch.randn(2, 8, model.config.d_model).half()
    stock = block(x)
    undo = patch_from({"pattern": "P66"}).apply(model, PatchContext(torch.device("cpu"), torch.float16))
    assert all(torch.equal(one, other) for one, other in zip(stock[:2], block(x)[:2], strict=True))
    graph = torch.export.export(block, (x,)).graph
    assert not any("isinf" in str(node.target) for node in graph.nodes)
    undo()
    assert "forward" not in block.__dict__


def test_blocks_that_look_for_none_are_not_its_business() -> None:
    with pytest.raises(PatchDoesNotApply, match="P66: no encoder block of two parts looks for infinities"):
        patch_from({"pattern": "P66"}).match(family("bert"))
