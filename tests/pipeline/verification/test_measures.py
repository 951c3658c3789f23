"""Measures: each sees the mistake it is for, on the tokens that count and on no others."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.verification import measures

MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
LEFT = MASK.flip(1)


@pytest.fixture
def reference() -> torch.Tensor:
    return torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(3))


def test_equal_outputs_are_perfect(reference: torch.Tensor) -> None:
    assert measures.lowest_token_cosine(reference, reference, MASK) == pytest.approx(1)
    assert measures.norm_range(reference, reference, MASK) == pytest.approx((1, 1))
    assert measures.error_ratio(reference, reference, reference, MASK) == 0


def test_one_bad_token_decides(reference: torch.Tensor) -> None:
    bad = reference.clone()
    bad[1, 1] *= -1
    assert measures.lowest_token_cosine(bad, reference, MASK) == pytest.approx(-1)


def test_padding_does_not_count(reference: torch.Tensor) -> None:
    other = torch.where(MASK.bool().unsqueeze(-1), reference, torch.nan)
    assert measures.lowest_token_cosine(other, reference, MASK) == pytest.approx(1)
    assert measures.all_finite(other, MASK)
    for pooling in measures.POOLINGS:
        assert measures.pool(other, MASK, pooling).isfinite().all(), pooling


def test_nan_is_never_hidden(reference: torch.Tensor) -> None:
    bad = reference.clone()
    bad[0, 0, 0] = torch.nan
    assert math.isnan(measures.lowest_token_cosine(bad, reference, MASK))
    assert math.isnan(measures.norm_range(bad, reference, MASK).low)
    assert not measures.all_finite(bad, MASK)


def test_infinity_is_nan_in_the_cosine(reference: torch.Tensor) -> None:
    bad = reference.clone()
    bad[0, 0, 0] = torch.inf
    assert math.isnan(measures.lowest_token_cosine(bad, reference, MASK))


def test_scale_shows_in_the_norm_only(reference: torch.Tensor) -> None:
    assert measures.lowest_token_cosine(1.1 * reference, reference, MASK) == pytest.approx(1)
    assert measures.norm_range(1.1 * reference, reference, MASK) == pytest.approx((1.1, 1.1))


def test_the_norm_is_that_of_a_whole_text(reference: torch.Tensor) -> None:
    louder = reference.clone()
    louder[1] *= 1.1
    low, high = measures.norm_range(louder, reference, MASK)
    assert (low, high) == pytest.approx((1, 1.1))


def test_padding_does_not_count_in_the_norm(reference: torch.Tensor) -> None:
    other = torch.where(MASK.bool().unsqueeze(-1), reference, 1e6)
    assert measures.norm_range(other, reference, MASK) == pytest.approx((1, 1))


def test_zeros_have_cosine_zero(reference: torch.Tensor) -> None:
    assert measures.lowest_token_cosine(torch.zeros_like(reference), reference, MASK) == 0


def test_no_token_is_an_error(reference: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="no unmasked token"):
        measures.lowest_token_cosine(reference, reference, torch.zeros_like(MASK))


@pytest.mark.parametrize("pooling", ["mean", "cls", "last", "max", "weightedmean"])
def test_pooling_does_not_depend_on_the_padding_side(reference: torch.Tensor, pooling: str) -> None:
    packed = torch.zeros_like(reference)
    for row in range(3):
        packed[row, LEFT[row].bool()] = reference[row, MASK[row].bool()]
    right, left = measures.pool(reference, MASK, pooling), measures.pool(packed, LEFT, pooling)
    assert torch.allclose(right, left)


def test_poolings_are_what_they_say(reference: torch.Tensor) -> None:
    tokens = reference[1, :2].double()
    assert torch.allclose(measures.pool(reference, MASK, "mean")[1], tokens.mean(0))
    assert torch.equal(measures.pool(reference, MASK, "cls")[1], tokens[0])
    assert torch.equal(measures.pool(reference, MASK, "lasttoken")[1], tokens[1])
    assert torch.equal(measures.pool(reference, MASK, "max")[1], tokens.amax(0))
    assert torch.allclose(measures.pool(reference, MASK, "weightedmean")[1], (tokens[0] + 2 * tokens[1]) / 3)


@pytest.mark.parametrize("mask", [MASK, LEFT], ids=["right", "left"])
def test_the_tokens_a_pooling_uses(mask: torch.Tensor) -> None:
    first, last = (measures.pooled_tokens(mask, pooling) for pooling in ("cls", "lasttoken"))
    assert measures.pooled_tokens(mask, "mean") is mask
    assert first.sum(1).tolist() == last.sum(1).tolist() == [1, 1, 1]
    assert (first <= mask).all()
    assert (last <= mask).all()
    assert first.argmax(1).tolist() == [int(row.nonzero()[0]) for row in mask]
    assert last.argmax(1).tolist() == [int(row.nonzero()[-1]) for row in mask]


def test_unknown_pooling_is_refused(reference: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="unknown pooling 'median'"):
        measures.pool(reference, MASK, "median")


def test_centring_sees_what_a_common_direction_hides() -> None:
    common = torch.full((4, 16), 10.0)
    own = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    reference, shuffled = common + own, common + own.roll(1, 0)
    assert measures.lowest_cosine(shuffled, reference) > 0.97
    centred = measures.lowest_centred_cosine(shuffled, reference)
    assert centred is not None
    assert centred < 0.5


def test_centring_needs_three_texts() -> None:
    assert measures.lowest_centred_cosine(torch.ones(2, 4), torch.ones(2, 4)) is None


def test_spearman_sees_order_not_size() -> None:
    vectors = torch.randn(12, 8, generator=torch.Generator().manual_seed(2))
    assert measures.spearman(3 * vectors, vectors) == pytest.approx(1)
    assert abs(measures.spearman(vectors.roll(1, 0), vectors)) < 0.9
    with pytest.raises(ValueError, match="at least 3"):
        measures.spearman(vectors[:2], vectors[:2])


def test_ranks_share_ties() -> None:
    assert measures._ranks(torch.tensor([2.0, 1.0, 2.0, 5.0])).tolist() == [1.5, 0.0, 1.5, 3.0]


def test_error_ratio_compares_with_the_ideal_run(reference: torch.Tensor) -> None:
    ideal, double = reference * (1 + 1e-3), reference * (1 + 2e-3)
    assert measures.error_ratio(double, ideal, reference, MASK) == pytest.approx(2, rel=1e-3)
    assert measures.error_ratio(reference, reference, reference, MASK) == 0


def test_company_sees_a_text_that_changes_in_a_batch(reference: torch.Tensor) -> None:
    alone = [reference[i : i + 1, MASK[i].bool()] for i in range(3)]
    assert measures.lowest_company_cosine(alone, reference, MASK) == pytest.approx(1)
    moved = reference.clone()
    moved[2, 3] *= -1
    assert measures.lowest_company_cosine(alone, moved, MASK) == pytest.approx(-1)
    with pytest.raises(ValueError, match="3 tokens alone"):
        measures.lowest_company_cosine(alone, reference, torch.ones_like(MASK))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_cosines_ignore_scale(seed: int, scale: float) -> None:
    vectors = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert torch.allclose(measures.cosines(scale * vectors, vectors), torch.ones(5, dtype=torch.float64))
