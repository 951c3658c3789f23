"""E-69: what single operations of 2025-11 got wrong, and rows whose last stick overlaps the next row.

A rank above 4 is refused by the allocator (limits.rank). A 0-dim tensor keeps its shape here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.rule import Call, Refuse, Rule, Wrong
from sim_backend.profiles import Profile

STICK_BYTES = 128


# --- copies
def overlapped(host: torch.Tensor) -> torch.Tensor:
    """What a host tensor is after the copy to the device: each row has one stick, and its rest the next row's place.

    True of a last dimension that is longer than a stick and no multiple of it (facts 2.1); others are copied rightly.
    Of the elements that share a place the one written last, by the later row, stays.
    """
    stick, width = STICK_BYTES // (4 if host.dtype == torch.float32 else 2), host.shape[-1] if host.dim() else 1
    if width <= stick or width % stick == 0:
        return host
    ordered = host.movedim(0, 1) if host.dim() == 3 else host  # the order of 3-D copies: d1, stick, d0
    rows = ordered.reshape(-1, width)
    place = torch.arange(len(rows))[:, None] * stick + torch.arange(width)
    writer = (place // stick).clamp(max=len(rows) - 1)
    held = rows[writer, place - writer * stick].reshape(ordered.shape)
    return held.movedim(0, 1) if host.dim() == 3 else held


# --- eager operations
def _eager(applies: Callable[[Call], str | None]) -> Callable[[Profile, Call], str | None]:
    return lambda profile, call: applies(call) if call.form == "eager" else None


def _scaled(call: Call) -> str | None:
    factors = [f"{name}={call.kwargs[name]}" for name in ("alpha", "beta") if call.kwargs.get(name, 1) != 1]
    return f"{', '.join(factors)} ignored" if factors else None


def plain_sum(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """add without alpha."""
    other = inputs[1] if len(inputs) > 1 else call.args[1]
    return inputs[0] + other


def plain_product(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """addmm without alpha and beta."""
    return inputs[0] + inputs[1] @ inputs[2]


def wrong_softmax(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """exp(x - max), divided by nothing or by the sum over the first dimension, as the parameter `softmax` says."""
    x, dim = inputs[0], int(call.args[1])
    exponentials = torch.exp(x - x.amax(dim, keepdim=True))
    if parameters["softmax"] == "unnormalised":
        return exponentials
    return exponentials / exponentials.sum(0, keepdim=True)


def _unaligned(call: Call) -> str | None:
    left, right = call.operands[-2:]
    odd = [n for n in (left.shape[-1], right.shape[-1]) if n % (STICK_BYTES // 2)]
    return f"matmul: unsupported input {list(left.shape)} x {list(right.shape)}" if odd else None


RULES = (
    Rule("E-69", frozenset(["aten.add"]), _eager(_scaled), Wrong(plain_sum)),
    Rule("E-69", frozenset(["aten.addmm"]), _eager(_scaled), Wrong(plain_product)),
    Rule("E-69", frozenset(["aten._softmax"]), _eager(lambda call: "softmax in eager"), Wrong(wrong_softmax)),
    Rule("E-69", frozenset(["aten.mean"]), _eager(lambda call: "mean in eager"), Refuse("unsupported_op")),
    Rule("E-69", frozenset(["aten.mm"]), lambda profile, call: _unaligned(call), Refuse("layout")),
)
