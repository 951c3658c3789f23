"""DL16 written twice agrees with itself; documents leave its range where the device would."""

from __future__ import annotations

import torch
from torch import nn

from adapters.document import capture_module
from pipeline.verification.equivalence.dl16 import rounded, run_dl16
from pipeline.verification.equivalence.points import dl16_values, edges, host_values, points
from pipeline.verification.ideal import DL16_MAX
from sim_backend.numerics import decode, round_dl16


def test_the_values_are_those_of_the_simulator_s_codes() -> None:
    codes = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    simulated = decode(codes)
    assert torch.equal(dl16_values().unique(), simulated[simulated.isfinite()].double().unique())


def test_rounding_and_overflow_are_the_simulator_s() -> None:
    generator = torch.Generator().manual_seed(3)
    exponent = torch.rand(200_000, generator=generator) * 64 - 31  # below 2^-31 the ideal run's rounding has one tie
    x = torch.exp2(exponent) * torch.where(torch.rand(200_000, generator=generator) < 0.5, -1.0, 1.0)
    x = torch.cat([x, torch.tensor([DL16_MAX, DL16_MAX * 1.0005, DL16_MAX * 1.001, 1e30, 0.0, torch.inf, torch.nan])])
    mine, simulated = rounded(x), round_dl16(x)
    assert torch.equal(mine.isnan(), simulated.isnan())
    assert torch.equal(mine.nan_to_num(), simulated.nan_to_num())


def test_a_power_leaves_the_range_at_the_published_point() -> None:
    cube = capture_module(nn.Sequential(_Cube()))
    values = run_dl16(cube, torch.tensor([2044.0, 2052.0], dtype=torch.float64))
    assert values.isfinite().tolist() == [True, False]


class _Cube(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x * x


def test_points_hold_every_device_value_both_zeros_and_differ_by_seed() -> None:
    held = points(1)
    assert bool(torch.isin(dl16_values(), held).all())
    assert bool(torch.isin(host_values(), held).all())
    assert {float(z).hex() for z in held[held == 0]} == {"0x0.0p+0", "-0x0.0p+0"}
    assert not torch.equal(held, points(2))
    assert torch.equal(held, points(1))
    assert float(held.abs().max()) <= DL16_MAX
    assert int(edges().isfinite().sum()) == 4
