"""E-18: what one compiled graph leaves in a broadcast layout, the next one misreads, unless it is a fresh clone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from sim_backend.device import ext
from sim_backend.errata.borders import default_reading

pytestmark = pytest.mark.fact("E-18")

ROWS, WIDTH = 6, 192


def hidden(width: int = WIDTH) -> torch.Tensor:
    return torch.randn(ROWS, width, generator=torch.Generator().manual_seed(3)).half()


def normalise(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def rms(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return torch.compile(function, fullgraph=True, dynamic=False)


def error_of_next_graph(first: Callable[..., torch.Tensor], x: torch.Tensor, clone: bool = False) -> float:
    """The largest error of doubling what `first` leaves on the device."""
    between = compiled(first)(x.to("spyre"))
    between = between.clone() if clone else between
    return float((compiled(double)(between).cpu().float() - 2 * first(x.float())).abs().max())


@pytest.mark.parametrize("first", [normalise, rms])
def test_e18_the_next_graph_misreads_a_normalised_output(first: Callable[..., torch.Tensor], use: Any) -> None:
    assert error_of_next_graph(first, hidden()) > 1.0


@pytest.mark.parametrize("first", [normalise, rms])
def test_e18_a_clone_reads_right(first: Callable[..., torch.Tensor], use: Any) -> None:
    assert error_of_next_graph(first, hidden(), clone=True) < 0.05


def test_e18_a_clone_inside_the_graph_reads_right(use: Any) -> None:
    assert error_of_next_graph(lambda x: normalise(x).clone(), hidden()) < 0.05


def test_e18_misreads_as_sticks_before_rows(use: Any) -> None:
    x = hidden()
    between = compiled(normalise)(x.to("spyre"))
    right = between.cpu()
    wrong = right.view(WIDTH // 64, ROWS, 64).transpose(0, 1).reshape(ROWS, WIDTH)
    assert torch.equal(compiled(double)(between).cpu(), (wrong * 2))


def test_e18_the_host_reads_a_tagged_tensor_right(use: Any) -> None:
    x = hidden()
    between = compiled(normalise)(x.to("spyre"))
    assert ext.layout_tag(between) == 1
    torch.testing.assert_close(between.cpu().float(), normalise(x.float()), atol=0.02, rtol=0.01)


def test_e18_spares_rows_of_one_stick(use: Any) -> None:
    assert error_of_next_graph(normalise, hidden(64)) < 0.05


def test_e18_spares_other_outputs(use: Any) -> None:
    between = compiled(lambda x: normalise(x) * 2 + x)(hidden().to("spyre"))
    assert ext.layout_tag(between) == 0


@pytest.mark.parametrize(
    ("profile", "overrides"),
    [
        ("profile-2026-04", {"errata.E-12": None}),
        ("profile-ideal", {}),
        ("profile-2026-08", {"errata.E-18": None}),
        ("profile-2026-08", {"errata": {"E-18": {"broadcast_layout": []}}}),
    ],
)
def test_e18_is_off(profile: str, overrides: dict[str, Any], use: Any) -> None:
    use(profile, overrides)
    assert error_of_next_graph(normalise, hidden()) < 0.05


def test_the_reading_is_a_permutation_of_sticks() -> None:
    flat = torch.arange(2 * 128.0)
    read = default_reading(flat, 128)
    assert sorted(read.tolist()) == flat.tolist()
    assert read[64:128].tolist() == flat[128:192].tolist()


def test_rows_that_are_no_whole_sticks_are_read_as_they_are() -> None:
    flat = torch.arange(100.0)
    assert default_reading(flat, 50) is flat
