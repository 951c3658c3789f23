"""The solver's sets are as small as exhaustive search finds, and free what they say."""

from __future__ import annotations

import itertools
import random

import pytest

from pipeline.ranking.causes import Blocked, Cause
from pipeline.ranking.cheapest import cheapest_sets

CAUSES = [Cause("unsupported_op", f"aten.op{i}", "") for i in range(7)]


def random_models(seed: int) -> list[Blocked]:
    rng = random.Random(seed)
    return [
        Blocked(f"m/{i}", rng.randint(0, 10**9), frozenset(rng.sample(CAUSES, rng.randint(1, 4)))) for i in range(25)
    ]


def smallest(models: list[Blocked], target: float) -> int:
    for size in range(len(CAUSES) + 1):
        for chosen in itertools.combinations(CAUSES, size):
            if sum(m.downloads for m in models if m.causes <= set(chosen)) >= target:
                return size
    raise AssertionError("no set reaches the target")


@pytest.mark.parametrize("seed", range(12))
def test_the_set_is_as_small_as_exhaustive_search_finds(seed: int) -> None:
    models = random_models(seed)
    total = sum(m.downloads for m in models)
    for found in cheapest_sets(models, total):
        assert found.reachable
        assert found.gap == pytest.approx(0)
        assert len(found.causes) == smallest(models, found.share * total)
        assert found.downloads == sum(m.downloads for m in models if m.causes <= set(found.causes))
        assert found.downloads >= found.share * total


def test_models_without_a_known_cause_make_a_share_unreachable() -> None:
    known = [Blocked("a/known", 40, frozenset(CAUSES[:2]))]
    ten, half, most = cheapest_sets(known, downloads=100)
    assert (ten.reachable, ten.causes, ten.models) == (True, tuple(CAUSES[:2]), 1)
    assert not half.reachable
    assert not most.reachable


def test_nothing_blocked_is_not_reachable_rather_than_an_empty_success() -> None:
    assert [found.reachable for found in cheapest_sets([], downloads=0)] == [False, False, False]
