"""E-56: a vocabulary padded with zero rows gives logits of 0 that can win. Arithmetic, nothing is injected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.fact("E-56")
VOCABULARY, PADDED = 100, 128


@pytest.mark.parametrize("profile", ["profile-2026-04", "profile-2026-08", "profile-2026-09", "profile-ideal"])
def test_e56_padded_logits_are_0_and_win_over_negative_ones_until_they_are_cropped(
    profile: str, use: Any, run: Callable[..., Any]
) -> None:
    use(profile)
    x = torch.rand(4, 64).half() + 0.5
    head = -torch.rand(VOCABULARY, 64).half() - 0.1
    logits = run(F.linear, x, F.pad(head, (0, 0, 0, PADDED - VOCABULARY)))
    assert logits[:, VOCABULARY:].eq(0).all()
    assert logits.argmax(-1).ge(VOCABULARY).all()
    cropped = logits[:, :VOCABULARY]
    assert cropped.lt(0).all()
    torch.testing.assert_close(cropped, F.linear(x.float(), head.float()), atol=0.1, rtol=0.01)
