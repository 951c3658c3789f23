"""The span rule: divisors only, at most 32 cores, and the published vocabularies on both sides of the limit."""

from __future__ import annotations

import pytest
import torch

from sim_backend.compiler.division import SPAN_LIMIT, Tensor, cores_in_use, product_span, widest_span

pytestmark = pytest.mark.fact("4.5", "E-24")

HALF = torch.float16
MB = 1 << 20


@pytest.mark.parametrize(("vocabulary", "fits"), [(151_936, False), (152_000, True)])
def test_2374_sticks_of_a_vocabulary_fail_and_2375_pass(vocabulary: int, fits: bool) -> None:
    span = product_span((1, 2048), (2048, vocabulary), HALF, 32)
    assert span.fits is fits
    assert vocabulary // 64 in (2374, 2375)


def test_the_published_span_of_2374_sticks_is_about_297_mb() -> None:
    span = product_span((1, 2048), (2048, 151_936), HALF, 32)
    assert span.splits == {"n": 2}
    assert round(span.span_bytes / MB) == 297
    assert span.text == ("per-core tensor span 296.75 MB of B [2048, 151936] exceeds hardware limit of 256.00 MB")


def test_a_prime_number_of_sticks_stays_on_one_core() -> None:
    assert not product_span((1, 4096), (4096, 64 * 1187), HALF, 32).fits
    assert product_span((1, 4096), (4096, 64 * 1188), HALF, 32).fits


def test_rows_do_not_help_a_weight() -> None:
    assert not product_span((4096, 2048), (2048, 151_936), HALF, 32).fits


def test_k_is_not_split() -> None:
    assert not product_span((1, 1 << 22), (1 << 22, 64), HALF, 32).fits


def test_few_cores_may_not_be_enough() -> None:
    assert product_span((1, 2048), (2048, 152_000), HALF, 5).fits
    assert not product_span((1, 2048), (2048, 152_000), HALF, 1).fits


def test_what_fits_is_not_split() -> None:
    assert product_span((64, 768), (768, 3072), HALF, 32).splits == {}


@pytest.mark.parametrize(("extra", "fits"), [(0, True), (128, False)])
def test_the_limit_itself_is_allowed(extra: int, fits: bool) -> None:
    assert widest_span({}, [Tensor("x", SPAN_LIMIT + extra, frozenset())], 32).fits is fits


def test_the_fewest_splits_are_taken() -> None:
    tensors = [Tensor("x", 3 * SPAN_LIMIT, frozenset("ab"))]
    assert widest_span({"a": 8, "b": 3}, tensors, 32).splits == {"b": 3}


def test_a_weight_of_every_batch_is_split_with_it() -> None:
    assert product_span((64, 128, 4096), (64, 4096, 4096), HALF, 32).fits
    assert product_span((64, 128, 4096), (1, 4096, 64 * 7919), HALF, 32).fits is False


def test_sencores_sets_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENCORES", raising=False)
    assert cores_in_use() == 32
    monkeypatch.setenv("SENCORES", "8")
    assert cores_in_use() == 8


@pytest.mark.parametrize("text", ["0", "33", "-1", "many", ""])
def test_an_impossible_number_of_cores_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENCORES", text)
    with pytest.raises(ValueError, match="SENCORES must be a number from 1 to 32"):
        cores_in_use()
