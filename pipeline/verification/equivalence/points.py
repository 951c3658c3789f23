"""Where an element-wise patch is compared: every value the device can hold, drawn points between them, and the edges.

A module between two device operations receives DL16 values, of which there are 65,534 finite ones: they are all tried,
so on the device nothing is left to chance. The host parts hold fp16 or bf16: all of those too. Points drawn from a
hidden seed stand for fp32 on the CPU.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from pipeline.verification.ideal import DL16_MAX

FP16_MAX = 65504.0
"""Activations stay below this wherever fp16 was chosen: the dtype probe (P56) leaves a factor of 8 under it."""

RANDOM_POINTS = 4096
_INFINITE = (float("inf"), float("-inf"), float("nan"))
_BEYOND = (1e30, -1e30, 1e-300, -1e-300)
_STEP = 1 / 64


@cache
def dl16_values() -> Tensor:
    """Every finite DL16 value, fp64, (65534,): exponent 1 to 63 less 31, 9 fraction bits, and those of exponent 0.

    Exponent 0 with a fraction is an ordinary value, zero is both zero; the largest code is no number.
    """
    exponent = torch.arange(64, dtype=torch.float64)[:, None] - 31
    fraction = 1 + torch.arange(512, dtype=torch.float64)[None] / 512
    magnitude = (torch.exp2(exponent) * fraction).flatten()
    magnitude[0] = 0.0
    return torch.cat([magnitude[:-1], -magnitude[:-1]])


@cache
def host_values() -> Tensor:
    """Every finite fp16 value, and every bf16 value that DL16 can hold, fp64."""
    codes = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    both = torch.cat([codes.view(torch.float16).double(), codes.view(torch.bfloat16).double()])
    return both[both.isfinite() & (both.abs() <= DL16_MAX)]


@cache
def _held() -> Tensor:
    grid = torch.linspace(-40, 40, int(80 / _STEP) + 1, dtype=torch.float64)
    return torch.cat([torch.cat([dl16_values(), host_values()]).unique(), torch.tensor([-0.0]), grid])


def points(seed: int) -> Tensor:
    """Every value of the domain, the grid -40..40 by 1/64, normal points and log-uniform magnitudes, fp64, (n,)."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(RANDOM_POINTS, generator=generator, dtype=torch.float64) * 3
    exponent = torch.rand(RANDOM_POINTS, generator=generator, dtype=torch.float64) * 19 - 10
    sign = torch.randint(2, (RANDOM_POINTS,), generator=generator) * 2 - 1
    return torch.cat([_held(), normal, (sign * 10**exponent).clamp(-DL16_MAX, DL16_MAX)])


def edges() -> Tensor:
    """What no device value is: infinities, NaN, and magnitudes beyond DL16's range on both sides, fp64."""
    return torch.tensor([*_INFINITE, *_BEYOND], dtype=torch.float64)
