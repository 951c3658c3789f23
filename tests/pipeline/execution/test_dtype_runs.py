"""A capability report is made in every dtype in which a model may meet the device."""

from __future__ import annotations

import pytest
import torch

from pipeline.execution.capture import dtype_runs


@pytest.mark.parametrize(
    ("declared", "runs"),
    [
        ("float32", [torch.float32, torch.float16]),
        ("bfloat16", [torch.bfloat16, torch.float32, torch.float16]),
        ("float16", [torch.float32, torch.float16]),
    ],
)
def test_a_narrow_checkpoint_is_looked_at_in_fp32_too_as_it_is_loaded(declared: str, runs: list[torch.dtype]) -> None:
    assert list(dtype_runs(declared)) == runs
