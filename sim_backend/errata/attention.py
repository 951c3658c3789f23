"""Attention: E-17 (transposed operands), E-22 (length not a multiple of 64), E-72 (unequal head sizes)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from sim_backend.profiles import Profile

HEAD_MULTIPLE = 64


class Tail(NamedTuple):
    """E-22: positions past the end of the last stick that attend as if their score were `score`."""

    positions: int
    score: float
    value: float


def transposed_operands(profile: Profile, operands: Sequence[torch.Tensor]) -> tuple[bool, ...]:
    """For each of q, k, v: True if E-17 makes the device read it with the default layout of its shape."""
    return tuple(profile.has("E-17") and not t.is_contiguous() for t in operands)


def default_reading(t: torch.Tensor) -> torch.Tensor:
    """The buffer of `t` read with the default layout of its shape: the stride permutation is ignored (E-17)."""
    return torch.as_strided(t, t.shape, _contiguous(t.shape), t.storage_offset())


def padded_tail(profile: Profile, positions: int) -> Tail | None:
    """E-22 for attention over `positions` keys; None if the length fills its sticks or the defect is off."""
    parameters = profile.errata.get("E-22")
    missing = -positions % HEAD_MULTIPLE
    if parameters is None or missing == 0:
        return None
    return Tail(missing, float(parameters["tail_score"]), float(parameters["tail_value"]))


def unequal_heads_problem(profile: Profile, head: int, value_head: int) -> str | None:
    """E-72: the refused thing if V's head size is unlike that of Q and K."""
    if head == value_head or not profile.has("E-72"):
        return None
    return f"scaled_dot_product_attention with a value head of {value_head} unlike the query head of {head}"


def head_multiple_problem(profile: Profile, head: int) -> str | None:
    """The refused thing if the head size is not a multiple of 64 (facts 6.8)."""
    if profile.ideal or head % HEAD_MULTIPLE == 0:
        return None
    return f"scaled_dot_product_attention with a head of {head}: expected a multiple of {HEAD_MULTIPLE}"


def _contiguous(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
