"""Operands read in a layout not theirs: E-36 (sliced and transposed), E-37 (stick swapped), E-42 (broadcast)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.numerics import spread
from sim_backend.errata.offsets import stick_of
from sim_backend.errata.rereading import COPIES, ELEMENTWISE, default_reading, recomputed
from sim_backend.errata.rule import Call, Operand, Rule, Wrong
from sim_backend.profiles import Profile

_SLICES, _SWAPS = frozenset(["aten.slice"]), frozenset(["aten.permute", "aten.transpose", "aten.t"])


def stick_dimension(operand: Operand) -> int | None:
    """The dimension along which memory is contiguous; None if no dimension of more than one element has stride 1."""
    return next(
        (d for d, (n, s) in enumerate(zip(operand.shape, operand.stride, strict=True)) if s == 1 and n > 1), None
    )


# --- E-36
def _sliced_and_transposed(operand: Operand) -> bool:
    return len(operand.shape) == 4 and bool(_SLICES & {*operand.views}) and bool(_SWAPS & {*operand.views})


def _corrupt_views(profile: Profile, call: Call) -> str | None:
    found = [o for o in call.operands if _sliced_and_transposed(o)]
    if not call.fused or not found:
        return None
    return f"a view of shape {list(found[0].shape)}, sliced and transposed, read inside a fused graph"


def reread_views(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-36: the sliced and transposed operands are read with the default layout of their shape."""
    pairs = zip(inputs, call.operands, strict=True)
    return recomputed(call, [default_reading(t) if _sliced_and_transposed(o) else t for t, o in pairs])


# --- E-37
def _is_swapped(operand: Operand) -> bool:
    stick = stick_dimension(operand)
    return stick is not None and stick != max(d for d, n in enumerate(operand.shape) if n > 1)


def _swapped_operands(profile: Profile, call: Call) -> str | None:
    found = [o for o in call.operands if o.is_half and _is_swapped(o)]
    return f"an operand of shape {list(found[0].shape)} with strides {list(found[0].stride)}" if found else None


def reread_swapped(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-37: a reported share of the result comes of operands read with the default layout of their shape."""
    pairs = zip(inputs, call.operands, strict=True)
    wrong = recomputed(call, [default_reading(t) if _is_swapped(o) else t for t, o in pairs])
    is_copy = ".".join(call.op.split(".")[:2]) in COPIES
    share = float(parameters["wrong_share"]["contiguous" if is_copy else "elementwise"])
    return torch.where(spread(result.numel(), share).reshape(result.shape), wrong, result)


# --- E-42
def _one_per_row(operand: Operand, width: int, whole_rows: int) -> bool:
    rows = math.prod(operand.shape[:-1])
    is_sparse = len(operand.shape) > 1 and operand.shape[-1] == 1 and width > stick_of(operand.dtype)
    return is_sparse and (whole_rows == 0 or rows % whole_rows != 0)


def _width(call: Call) -> int:
    return max((o.shape[-1] for o in call.operands if o.shape), default=1)


def _whole_rows(call: Call, parameters: Mapping[str, Any]) -> int:
    return int(parameters["whole_rows"]) if call.op.startswith("aten.mul.") else 0


def _wide_broadcast(profile: Profile, call: Call) -> str | None:
    if call.original.split(".")[1] != call.op.split(".")[1]:
        return None  # a step inside an operation of its own row in the table, which works (facts 3.2)
    whole = _whole_rows(call, profile.errata["E-42"])
    found = [o for o in call.operands if _one_per_row(o, _width(call), whole)]
    return f"{list(found[0].shape)} broadcast to rows of {_width(call)}" if found else None


def beyond_first_stick(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-42: past the first stick of a row the broadcast operand is not what was broadcast."""
    width, whole = _width(call), _whole_rows(call, parameters)
    value = float(parameters["beyond_first_stick"])

    def read(t: torch.Tensor, operand: Operand) -> torch.Tensor:
        if not _one_per_row(operand, width, whole):
            return t
        spread_out = t.expand(*t.shape[:-1], width).clone()
        spread_out[..., stick_of(operand.dtype) :] = value
        return spread_out

    return recomputed(call, [read(t, o) for t, o in zip(inputs, call.operands, strict=True)])


RULES: tuple[Rule, ...] = (
    Rule("E-36", ELEMENTWISE | COPIES, _corrupt_views, Wrong(reread_views)),
    Rule("E-37", ELEMENTWISE | COPIES, _swapped_operands, Wrong(reread_swapped)),
    Rule("E-42", frozenset(["aten.add", "aten.mul"]), _wide_broadcast, Wrong(beyond_first_stick)),
)
