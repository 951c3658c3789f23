"""Rows of the op table whose remark tells parts of an operation apart (facts 3.2): the cell of a call by its arguments.

"topk: k ≤ 128, largest only", "flip: not the last dim", "triu: int F". A call in the other part is refused or falls
back although its row works. Serves eager calls (device tensors) and nodes of compiled graphs (fake tensors).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch

from sim_backend.profiles import split_op

TOPK_LIMIT = 128
Arguments = Sequence[Any]
WORKING = "NDKSVH"


class Part(NamedTuple):
    """The cell of a call that its row's letter does not hold for; `thing` is what is refused."""

    letter: Literal["X", "F"]
    thing: str


def part_of(op: str, cell: str, form: str, arguments: Arguments) -> Part | None:
    """The part that the call of `op` ("aten.topk.default") with positional `arguments` belongs to.

    None if the row's own `cell` stands: it is refused anyway, or the call is in the part that works.
    """
    rule = _PARTS.get(split_op(op)[0])
    return rule(form, arguments) if rule is not None and cell in (*WORKING, "F") else None


def _topk(form: str, arguments: Arguments) -> Part | None:
    _, k, *rest = arguments
    if k > TOPK_LIMIT:
        return Part("X", f"topk with k={k} is not supported (max k={TOPK_LIMIT})")
    smallest = len(rest) > 1 and not rest[1]
    return Part("X", "topk with largest=False") if smallest else None


def _flip(form: str, arguments: Arguments) -> Part | None:
    x, dims = arguments[:2]
    return Part("X", "flip of the last dimension") if _holds_last(x, dims) else None


def _prod(form: str, arguments: Arguments) -> Part | None:
    x, *dims = arguments
    if not x.is_floating_point() or x.dtype == torch.float32:
        return None  # unrolled
    return Part("X", "prod along the stick") if not dims or _holds_last(x, dims[:1]) else None


def _triu(form: str, arguments: Arguments) -> Part | None:
    return None if arguments[0].is_floating_point() else Part("F", "triu of integers")


def _index_copy(form: str, arguments: Arguments) -> Part | None:
    int32 = form == "eager" and arguments[2].dtype == torch.int32
    return Part("X", "index_copy with int32 subscripts") if int32 else None


def _masked_scatter(form: str, arguments: Arguments) -> Part | None:
    x, mask = arguments[:2]
    rows = mask.dim() == x.dim() and mask.shape[-1] == 1
    return None if rows else Part("X", "masked_scatter with a mask that is not of rows")


def _slice_scatter(form: str, arguments: Arguments) -> Part | None:
    step = arguments[5] if len(arguments) > 5 else 1
    return Part("X", f"slice_scatter with step={step}") if step != 1 else None


def _holds_last(x: torch.Tensor, dims: Sequence[int]) -> bool:
    return any(d % x.dim() == x.dim() - 1 for d in dims)


_PARTS: dict[str, Callable[[str, Arguments], Part | None]] = {
    "aten.topk": _topk,
    "aten.flip": _flip,
    "aten.prod": _prod,
    "aten.triu": _triu,
    "aten.index_copy": _index_copy,
    "aten.masked_scatter": _masked_scatter,
    "aten.slice_scatter": _slice_scatter,
}
HAS_PARTS = frozenset(_PARTS)
