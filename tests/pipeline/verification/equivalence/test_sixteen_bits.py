"""The same mathematics in fp64 may keep nothing in 16 bits: blocks are judged in ideal DL16 too."""

from __future__ import annotations

import pytest
import torch

from pipeline.verification.equivalence.sixteen_bits import STEP, loss, times_as_much

EXACT = torch.randn(2, 8, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
REAL = torch.ones(2, 8, dtype=torch.bool)


def off_by(share: float) -> torch.Tensor:
    noise = torch.randn(EXACT.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return EXACT + share * noise * EXACT.norm(dim=-1, keepdim=True) / noise.norm(dim=-1, keepdim=True)


def test_what_a_block_loses_is_relative_to_its_rows() -> None:
    lost = loss(EXACT, off_by(0.01))
    assert torch.allclose(lost.rows, torch.full_like(lost.rows, 0.01))
    assert times_as_much(lost, loss(EXACT, off_by(0.05)), REAL) == pytest.approx(5.0)


def test_one_rounding_is_free() -> None:
    nothing = loss(EXACT, EXACT)
    assert times_as_much(nothing, loss(EXACT, off_by(STEP)), REAL) == pytest.approx(1.0)


def test_padding_does_not_count_and_what_is_no_number_does() -> None:
    output = EXACT.clone()
    output[0, 0] = torch.nan
    usual, broken = loss(EXACT, off_by(STEP)), loss(EXACT, output)
    padded = REAL.clone()
    padded[0, 0] = False
    assert times_as_much(usual, broken, padded) < 1.0
    assert times_as_much(usual, broken, REAL) == float("inf")
