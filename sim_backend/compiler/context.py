"""What a call cannot tell by itself: words on an FX node that its graph shows, for the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from sim_backend.errata import padding, views

aten = torch.ops.aten
_IN_PLACE = ("mul_", "imul", "index_add_")


def context_of(node: Node) -> tuple[str, ...]:
    """The words on `node`; () for most."""
    find = _FINDERS.get(_packet(node))
    word = None if find is None else find(node)
    return () if word is None else (word,)


def _gathers_again(node: Node) -> str | None:
    """An earlier gather in the graph: all device operations between two fallbacks are one bundle (facts 4.4)."""
    earlier: Node | None = None
    for other in node.graph.nodes:
        if other is node:
            break
        if _packet(other) is aten.index and other.meta["val"].device.type == "spyre":
            earlier = other
    if earlier is None:
        return None
    return views.SAME_INDEX if earlier.args[1] == node.args[1] else views.OTHER_INDEX


def _subtracts_slices(node: Node) -> str | None:
    slices = [a for a in node.args if isinstance(a, Node) and _packet(a) is aten.slice]
    by_cpu = len(slices) == 2 and all(s.meta.get("should_fallback") for s in slices)
    return views.FALLBACK_SLICES if by_cpu and slices[0].args[:2] == slices[1].args[:2] else None


def _in_place(node: Node) -> str | None:
    """The user called a method that ends with an underscore, or an operator such as `*=`: traced as if it did not."""
    stack = node.meta.get("source_fn_stack")
    if not stack:
        return None
    name = getattr(stack[-1][1], "__name__", str(stack[-1][1]))
    return views.IN_PLACE if name in _IN_PLACE else None


def _sums_exponentials(node: Node) -> str | None:
    return padding.EXPONENTIALS if isinstance(node.args[0], Node) and _packet(node.args[0]) is aten.exp else None


def _packet(node: Node) -> Any:
    return getattr(node.target, "overloadpacket", None)


_FINDERS: dict[Any, Callable[[Node], str | None]] = {
    aten.index: _gathers_again,
    aten.sum: _sums_exponentials,
    aten.sub: _subtracts_slices,
    aten.mul: _in_place,
    aten.index_add: _in_place,
}
