"""E-34: a slice written from a prefix view, after a prefix of another length."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sim_backend.errata import writes
from sim_backend.errata.writes import PrefixWrites

from .calls import operand

pytestmark = pytest.mark.fact("E-34")


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No prefix has been written in this process."""
    monkeypatch.setattr(writes, "WRITES", PrefixWrites())


def rows(count: int) -> torch.Tensor:
    return torch.arange(1, count + 1).half()[:, None].expand(count, 64).contiguous()


def written(*lengths: int, clone: bool = False, contiguous: bool = False) -> torch.Tensor:
    """The first column of a cache of 8 rows, after prefixes of a 6-row source were written from row 1 on."""
    source, cache = rows(6).to("spyre"), torch.zeros(8, 64).half().to("spyre")
    for length in lengths:
        prefix = source[:length]
        prefix = prefix.clone() if clone else prefix.contiguous() if contiguous else prefix
        cache.zero_()
        cache[1 : 1 + length].copy_(prefix)
    return cache.cpu()[:, 0]


def test_e34_the_second_length_overwrites_the_rows_after_the_target(use: Any) -> None:
    assert written(2, 3).tolist() == [0, 1, 2, 3, 4, 5, 6, 0]


def test_e34_contiguous_does_not_help_and_clone_does(use: Any) -> None:
    assert written(2, 3, contiguous=True).tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert written(2, 3, clone=True).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def test_e34_the_first_length_and_its_repetition_are_right(use: Any) -> None:
    assert written(3).tolist() == written(3, 3).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def test_e34_whole_sources_and_whole_targets_are_right() -> None:
    process = PrefixWrites()
    slice_of_cache, whole = operand(3, 64, extent=512, offset=64), operand(6, 64)
    assert process.note(operand(2, 64, extent=384), slice_of_cache) is None
    assert process.note(whole, operand(6, 64, extent=512)) is None
    assert process.note(operand(3, 64, extent=384), operand(3, 64)) is None
    assert process.note(operand(3, 64, extent=384, offset=64), slice_of_cache) is None
    assert process.note(operand(3, 64, extent=384), slice_of_cache) == 384


def test_e34_stops_at_the_end_of_the_target_s_storage() -> None:
    process = PrefixWrites()
    process.note(operand(2, 64, extent=640), operand(2, 64, extent=512))
    assert process.note(operand(3, 64, extent=640), operand(3, 64, extent=512, offset=320)) == 192


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-ideal"])
def test_e34_is_off(profile: str, use: Any) -> None:
    use(profile)
    assert written(2, 3).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def test_e34_is_on_in_september(use: Any) -> None:
    use("profile-2026-09")
    assert written(2, 3).tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
