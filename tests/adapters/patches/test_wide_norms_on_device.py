"""P57 on the simulated device: a fused layer norm adds in 16 bits, one in fp32 is rounded once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sim_backend
from adapters.patches.wide_norms import wide_layer_norm

WIDTH = 768


@pytest.mark.parametrize("compiled", [False, True])
def test_a_norm_in_fp32_has_less_than_half_the_error_of_the_fused_one(compiled: bool) -> None:
    assert sim_backend.current_profile().name == "profile-2026-08"
    norm = nn.LayerNorm(WIDTH, bias=False).half().eval().requires_grad_(False)
    x = torch.randn(128, WIDTH, generator=torch.Generator().manual_seed(1)).half()
    exact = nn.functional.layer_norm(x.double(), (WIDTH,))
    torch.spyre.reset_fallback_counts()
    placed, values = norm.to("spyre"), x.to("spyre")
    errors = []
    for function in (type(norm).forward, wide_layer_norm):
        run = torch.compile(function, fullgraph=True, dynamic=False) if compiled else function
        found = run(placed, values).cpu().double()
        errors.append(float((found - exact).norm() / exact.norm()))
    assert errors[1] < 0.5 * errors[0]
    assert torch.spyre.fallback_counts() == {}
