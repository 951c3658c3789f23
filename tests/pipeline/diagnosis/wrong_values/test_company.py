"""A block that is wrong only in company of other rows is said to be so; one that is wrong alone too is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from pipeline.diagnosis.wrong_values import search
from pipeline.diagnosis.wrong_values.blocks import BlockCall
from pipeline.diagnosis.wrong_values.boundaries import Boundary, _Chain
from pipeline.diagnosis.wrong_values.compare import Difference

OFF, RIGHT = Difference(0.5, 0.001), Difference(0.0001, 0.001)


def boundary(rows: int) -> Boundary:
    block, x, mask = nn.Linear(4, 4), torch.ones(rows, 3, 4), torch.ones(1, 1, 3, 3)
    return Boundary(BlockCall("layers.0", block, (x,), {"mask": mask}, block(x)), OFF, 0.5, 0.001, None)


def device(right_for: int) -> Any:
    """Stands in for the device: right for so many rows, wrong for more."""

    def walk(calls: Sequence[BlockCall], _real: Any = None) -> Iterator[Any]:
        yield from (SimpleNamespace(own=RIGHT if c.args[0].shape[0] <= right_for else OFF) for c in calls)

    return walk


def test_only_real_tokens_are_compared() -> None:
    real = search.real_tokens({"attention_mask": torch.tensor([[1, 1, 0]])})
    assert real is not None
    assert real.tolist() == [[True, True, False]]
    assert search.real_tokens({"attention_mask": torch.zeros(1, 1, 3, 3)}) is None
    kept = _Chain(real=real).kept(torch.arange(6).reshape(1, 3, 2))
    assert kept.tolist() == [[0, 1], [2, 3]]
    assert _Chain(real=real).kept(torch.ones(1, 4, 2)).shape == (1, 4, 2)


def test_the_first_row_keeps_what_has_no_rows() -> None:
    alone = search.first_row(boundary(2).call)
    assert alone is not None
    assert (alone.args[0].shape, alone.kwargs["mask"].shape, alone.output.shape) == ((1, 3, 4), (1, 1, 3, 3), (1, 3, 4))
    assert search.first_row(boundary(1).call) is None


@pytest.mark.parametrize(("right_for", "rows", "cause"), [(1, 2, "batch"), (0, 2, "block"), (0, 1, "block")])
def test_company_is_the_condition_only_where_a_row_alone_is_right(
    right_for: int, rows: int, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "boundaries", device(right_for))
    found = search._of_the_whole(boundary(rows), "whole")
    assert found.failure.scalars == (cause,)
    assert ("company" in found.failure.message) == (cause == "batch")
