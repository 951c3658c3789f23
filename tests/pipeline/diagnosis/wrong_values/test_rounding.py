"""Runs with every result rounded take inputs of any memory order."""

from __future__ import annotations

import torch

from pipeline.diagnosis.wrong_values.rounding import ideal_run


def test_an_expanded_input_is_rounded_as_any_other() -> None:
    whole = torch.linspace(0.1, 1.0, 12).reshape(3, 4)
    row = whole[:1].expand(3, 4)
    assert torch.equal(ideal_run(torch.add, (row, whole)), ideal_run(torch.add, (row.contiguous(), whole)))
    turned = whole.t()
    assert ideal_run(lambda x: x, (turned,)).stride() == turned.stride()
