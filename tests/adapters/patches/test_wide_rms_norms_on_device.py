"""P58 on the simulated device: what fewer roundings of an RMS norm are worth there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.models.t5.modeling_t5 import T5LayerNorm

import sim_backend
from adapters.patches.norms import rms_of
from adapters.patches.wide_rms_norms import wide_rms_norm

WIDTH = 768


@pytest.mark.parametrize("compiled", [False, True])
def test_a_norm_in_fp32_has_less_than_half_the_error_of_the_one_in_16_bits(compiled: bool) -> None:
    assert sim_backend.current_profile().name == "profile-2026-08"
    norm: Any = T5LayerNorm(WIDTH).half().eval().requires_grad_(False)
    norm.rms_scale, norm.rms_epsilon, norm.gain_offset = 1.0, 1e-6, 0.0
    x = torch.randn(128, WIDTH, generator=torch.Generator().manual_seed(1)).half()
    exact = x.double() * torch.rsqrt((x.double() ** 2).mean(-1, keepdim=True) + 1e-6)
    torch.spyre.reset_fallback_counts()
    placed, values = norm.to("spyre"), x.to("spyre")
    errors = []
    for function in (rms_of, wide_rms_norm):
        run = torch.compile(function, fullgraph=True, dynamic=False) if compiled else function
        found = run(placed, values).cpu().double()
        errors.append(float((found - exact).norm() / exact.norm()))
    assert errors[1] < 0.5 * errors[0]
    assert torch.spyre.fallback_counts() == {}
