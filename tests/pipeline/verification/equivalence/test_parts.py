"""Draws, borders and rows: edge cases are really there, borders are only what they seem, NaN never passes."""

from __future__ import annotations

import pytest
import torch

from pipeline.verification.equivalence.borders import Border, find_border
from pipeline.verification.equivalence.draws import (
    KINDS,
    QUIET,
    Tokens,
    draw_inputs,
    draw_stream,
    nudged,
    quiet_weights,
)
from pipeline.verification.equivalence.rows import compare_rows

TOKENS = Tokens(torch.arange(5, 100), 0, 2)
REAL = torch.ones(2, 6, dtype=torch.bool)


def stream(seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_texts_have_all_one_and_some_tokens_padded_on_both_sides() -> None:
    drawn = draw_inputs(("input_ids", "attention_mask", "token_type_ids"), 4, 12, TOKENS, 3)
    mask = drawn["attention_mask"]
    assert mask[0].sum() == 12
    assert mask[1].sum() == 1
    assert bool((drawn["input_ids"][mask == 0] == 0).all())
    assert bool((drawn["input_ids"][mask == 1] >= 5).all())
    assert int(drawn["token_type_ids"].max()) == 1
    sides = {bool(row[0]) for row in mask[1:] if row.sum() < 12}
    assert sides == {True, False}


def test_causal_models_get_their_one_token_text_padded_on_the_left() -> None:
    mask = draw_inputs(("attention_mask",), 2, 12, TOKENS._replace(causal=True), 3)["attention_mask"]
    assert mask[1].tolist() == [0] * 11 + [1]


def test_rows_hold_a_ladder_zeros_and_constants_and_outliers_stand_out() -> None:
    drawn = draw_stream("rows", (1, 40, 16), 1.0, 4)
    sizes = drawn[0].abs().amax(-1)
    assert sizes[8] < 1e-6
    assert sizes[9] > 1e-2
    assert bool((drawn[0, 1] == 0).all())
    assert bool((drawn[0, 2] == 1).all())
    outliers = draw_stream("outliers", (1, 40, 16), 1.0, 4)[0].abs().amax(0)
    assert int((outliers > 50).sum()) == 3
    assert len({float(draw_stream(kind, (1, 40, 16), 1.0, 4).sum()) for kind in KINDS}) == len(KINDS)


def test_quiet_weights_leave_buffers_alone() -> None:
    tensors = {"w": torch.ones(2), "inv_freq": torch.ones(2)}
    quiet = quiet_weights(tensors, frozenset({"w"}))
    assert float(quiet["w"][0]) == QUIET
    assert float(quiet["inv_freq"][0]) == 1


def test_nudging_moves_by_four_units_at_most() -> None:
    x = stream()
    moved = (nudged(x, 1) - x).abs() / x.abs()
    assert 0 < float(moved.max()) <= 5 * torch.finfo(torch.float64).eps


@pytest.mark.parametrize(
    "border", [Border(0, 0, 1.0, 0), Border(0, 3, 1.0, 0), Border(2, 0, 0.25, 0), Border(0, 2, 4.0, 5)]
)
def test_known_borders_are_found_and_lead_there_and_back(border: Border) -> None:
    x = stream()
    length, width = 6 + border.left + border.right, 8 + border.channels
    patched = border.inward(x, torch.randn(2, length, width, dtype=torch.float64))
    assert find_border(x, patched, REAL) == border
    assert torch.equal(border.outward(patched), x)


@pytest.mark.parametrize(
    "patched",
    [stream(1), stream() * 3.0, stream()[:, :5], stream()[..., :7], torch.cat([stream(), stream()], -1), stream() * 0],
    ids=["other", "factor 3", "shorter", "narrower", "wider, not zero", "zero"],
)
def test_other_streams_are_no_border(patched: torch.Tensor) -> None:
    assert find_border(stream(), patched, REAL) is None


def test_equal_rows_have_no_fault_and_padding_is_not_compared() -> None:
    real = REAL.clone()
    real[1, 3:] = False
    other = stream()
    other[1, 3:] = 7.0
    found = compare_rows(stream(), other, real, None, None)
    assert found.fault is None
    assert found.compared == 9


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1.0 + 1e-9])
def test_one_wrong_value_is_a_fault_at_its_row(value: float) -> None:
    stock, other = torch.ones(2, 6, 8, dtype=torch.float64), torch.ones(2, 6, 8, dtype=torch.float64)
    other[1, 4, 2] = value
    fault = compare_rows(stock, other, REAL, None, None).fault
    assert fault is not None
    assert (fault.batch, fault.token) == (1, 4)


def test_what_rounding_does_to_stock_is_allowed_and_no_more() -> None:
    stock = stream()
    moved = stock * (1 + 1e-10)
    assert compare_rows(stock, stock * (1 + 1e-10), REAL, moved, None).fault is None
    assert compare_rows(stock, stock * (1 + 1e-8), REAL, moved, None).fault is not None


def test_rows_that_stock_cannot_compute_are_not_counted() -> None:
    stock, other = stream(), stream()
    stock[0] = torch.nan
    assert compare_rows(stock, other, REAL, None, None).compared == 6


def test_another_shape_is_a_fault() -> None:
    assert compare_rows(stream(), stream()[:, :5], REAL, None, 1.0).fault is not None
