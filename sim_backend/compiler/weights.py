"""fp32 copies of constant weights beside their codes, so that a forward does not decode them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

import torch


class _Copies(NamedTuple):
    """The copies of one weight by form, valid while it lives with this storage and version."""

    owner: Callable[[], torch.Tensor | None]
    state: tuple[int, int]
    forms: dict[Any, torch.Tensor]


_copies: dict[int, _Copies] = {}  # by id: comparing tensors costs more than a look-up may


def cached_weight(
    weight: torch.Tensor, decode: Callable[[torch.Tensor], torch.Tensor], form: Any = None
) -> torch.Tensor:
    """`decode(weight)`, kept until the weight's storage or version changes or the weight dies.

    `form` tells apart different copies of one weight. Inference tensors have no version and are decoded anew.
    """
    if weight.is_inference():
        return decode(weight)
    state = (weight.data_ptr(), weight._version)
    held = _copies.get(id(weight))
    if held is None or held.state != state or held.owner() is not weight:
        held = _copies[id(weight)] = _Copies(_watched(weight), state, {})
    copy = held.forms.get(form)
    if copy is None:
        copy = held.forms[form] = decode(weight)
    return copy


def _watched(weight: torch.Tensor) -> Callable[[], torch.Tensor | None]:
    """A reference to `weight` that drops its copies when it dies."""
    key = id(weight)

    def drop(dead: ref[torch.Tensor]) -> None:
        held = _copies.get(key)
        if held is not None and held.owner is dead:
            del _copies[key]

    return ref(weight, drop)
