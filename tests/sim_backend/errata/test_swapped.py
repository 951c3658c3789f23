"""E-36, E-37, E-42: operands that are read in a layout that is not theirs, and what stays right beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from .calls import call_of, operand, profiles_with, triggered


def halves(*shape: int, seed: int = 8) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).half()


def wrong_share(result: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((result - expected).abs() > 0.02).float().mean())


# --- E-36
X4 = halves(2, 16, 4, 128)


def sliced_and_swapped(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, :2].transpose(1, 2) * 2.0 + 1.0


@pytest.mark.fact("E-36")
def test_e36_a_sliced_and_transposed_view_is_corrupt_in_a_fused_graph(use: Any, run: Callable[..., Any]) -> None:
    assert wrong_share(run(sliced_and_swapped, X4), sliced_and_swapped(X4.float())) > 0.5


@pytest.mark.fact("E-36")
def test_e36_only_when_fused(use: Any, run: Callable[..., Any]) -> None:
    def alone(x: torch.Tensor) -> torch.Tensor:
        return x[:, :, :2].transpose(1, 2) * 2.0

    assert wrong_share(run(alone, X4), alone(X4.float())) == 0.0


@pytest.mark.fact("E-36", "7.7")
def test_e36_needs_slice_and_transposition_of_four_dimensions() -> None:
    def met(*views: str, rank: int = 4, fused: bool = True) -> list[str]:
        shape = (2, 2, 16, 128)[4 - rank :]
        x = operand(*shape, views=tuple(f"aten.{v}" for v in views), extent=99999)
        return triggered(call_of("aten.mul.Tensor", x, 2.0, fused=fused))

    assert met("slice", "permute") == ["E-36"]
    assert met("slice") == met("permute") == met("select", "permute") == []
    assert met("slice", "permute", rank=3) == met("slice", "permute", fused=False) == []


@pytest.mark.fact("E-36")
def test_e36_is_of_august_only() -> None:
    x = operand(2, 2, 16, 128, views=("aten.slice", "aten.permute"))
    assert profiles_with(call_of("aten.mul.Tensor", x, 2.0), "E-36") == ["2026-08"]


# --- E-37
A, B = halves(128, 128), halves(128, 128, seed=9)


@pytest.mark.fact("E-37")
def test_e37_elementwise_on_a_swapped_operand_has_the_reported_size(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-04")
    result, expected = run(lambda a, b: a.t() + b, A, B), A.float().t() + B.float()
    assert wrong_share(result, expected) == pytest.approx(0.848, abs=0.03)
    assert 4.5 < float((result - expected).abs().max()) < 7.5  # reported: 5.86


@pytest.mark.fact("E-37")
def test_e37_contiguous_of_a_swapped_operand_has_the_reported_size(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-04")
    result = run(lambda a: a.t().contiguous(), A)
    assert wrong_share(result, A.float().t()) == pytest.approx(0.998, abs=0.02)
    assert 4.5 < float((result - A.float().t()).abs().max()) < 7.5  # reported: 6.41


@pytest.mark.fact("E-37")
def test_e37_spares_operands_whose_stick_is_the_last_dimension() -> None:
    outer = operand(4, 2, 64, stride=(64, 256, 1))
    row = operand(128, 1, stride=(1, 1))
    for spared in (outer, row, operand(128, 128)):
        assert "E-37" not in triggered(call_of("aten.add.Tensor", spared, operand(128, 128)), "profile-2026-04")


@pytest.mark.fact("E-37")
def test_e37_is_of_april_only() -> None:
    assert profiles_with(call_of("aten.clone.default", operand(128, 64, stride=(1, 128))), "E-37") == ["2026-04"]


# --- E-42
WIDE, ONE = halves(1, 11, 2880), halves(1, 11, 1, seed=3)


@pytest.mark.fact("E-42")
def test_e42_the_reported_product_is_wrong_past_the_first_stick(use: Any, run: Callable[..., Any]) -> None:
    use("profile-2026-04")
    result, expected = run(torch.mul, WIDE, ONE), WIDE.float() * ONE.float()
    assert wrong_share(result[..., :64], expected[..., :64]) == 0.0
    assert wrong_share(result[..., 64:], expected[..., 64:]) > 0.9


@pytest.mark.fact("E-42")
def test_e42_a_mean_added_to_rows_is_wrong_past_the_first_stick(use: Any, run: Callable[..., Any]) -> None:
    def added(x: torch.Tensor, y: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
        return x.mean(-1, keepdim=True) + zeros + y

    use("profile-2026-04")
    x, y, zeros = halves(4, 128).abs() + 1, halves(4, 128), torch.zeros(4, 1).half()
    error = (run(added, x, y, zeros) - added(x.float(), y.float(), zeros.float())).abs()
    assert error[:, :64].max() < 0.05
    assert error[:, 64:].min() > 0.5


def broadcast(rows: int, width: int = 2880, original: str = "aten.mul.Tensor") -> Any:
    return call_of("aten.mul.Tensor", operand(1, rows, width), operand(1, rows, 1), original=original)


@pytest.mark.fact("E-42", "E-02")
def test_e42_spares_one_stick_products_of_whole_blocks_and_steps_of_softmax() -> None:
    assert triggered(broadcast(11, width=64), "profile-2026-04") == []
    assert triggered(broadcast(128), "profile-2026-04") == []
    assert triggered(broadcast(11, original="aten._softmax.default"), "profile-2026-04") == []
    added = call_of("aten.add.Tensor", operand(128, 256), operand(128, 1))
    assert triggered(added, "profile-2026-04") == ["E-42"]
    assert triggered(call_of("aten.sub.Tensor", operand(11, 256), operand(11, 1)), "profile-2026-04") == []
    every = {"errata": {"E-42": {"whole_rows": 0}}}
    assert triggered(broadcast(128), "profile-2026-04", every) == ["E-42"]


@pytest.mark.fact("E-42")
def test_e42_is_of_november_and_april() -> None:
    assert profiles_with(broadcast(11), "E-42") == ["2025-11", "2026-04"]


@pytest.mark.fact("E-42")
def test_e42_a_spread_constant_among_the_operands_is_read_whole(use: Any, run: Callable[..., Any]) -> None:
    def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.mean(-1, keepdim=True) + torch.zeros_like(y) + y

    use("profile-2026-04")
    x, y = halves(64, 256).abs() + 1, halves(64, 256)
    assert wrong_share(run(added, x, y), added(x.float(), y.float())) > 0.5
