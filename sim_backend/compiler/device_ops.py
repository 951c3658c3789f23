"""The device's own operations that user code calls by name: `require_layout` and `compact`.

    torch.spyre.require_layout(t, device_size, stride_map)      only in compiled code (facts 2.2)
    torch.ops.spyre.compact(t)                                  2025-11 (facts 3.4)

Both leave values as they are: the one asks for a layout, which is data here, the other makes a sparse result dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from sim_backend.compiler.origins import VIEWS
from sim_backend.layouts import SpyreTensorLayout, device_format
from sim_backend.profiles import Profile

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_PRODUCTS = frozenset(["aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm"])
_libraries: list[torch.library.Library] = []


def define() -> None:
    """Register both operations, without an eager kernel: such a call raises NotImplementedError. Idempotent."""
    if _libraries:
        return
    library = torch.library.Library("spyre", "FRAGMENT")
    library.define("require_layout(Tensor self, int[] device_size, int[] stride_map) -> Tensor")
    library.define("compact(Tensor self) -> Tensor")
    library.impl("require_layout", lambda t, device_size, stride_map: torch.empty_like(t), "Meta")
    library.impl("compact", torch.empty_like, "Meta")
    _libraries.append(library)


def require_layout(t: torch.Tensor, device_size: Sequence[int], stride_map: Sequence[int]) -> torch.Tensor:
    """`t` in the layout of `device_size` and `stride_map`, in compiled code for the device only.

    Raises Unsupported in a graph for what is not fp16, bf16 or fp32, for another producer than a matrix product or a
    pointwise operation, and for a layout that does not fit; NotImplementedError outside compiled code.
    """
    result: torch.Tensor = torch.ops.spyre.require_layout(t, list(device_size), list(stride_map))
    return result


def layout_problem(node: Node) -> str | None:
    """Why the layout that `node`, a require_layout, asks for cannot be had; None if it can."""
    source, device_size, stride_map = node.args
    assert isinstance(source, Node)
    value = source.meta["val"]
    if value.dtype not in _DTYPES:
        return f"require_layout of {value.dtype}"
    if not _is_producer(source):
        return f"require_layout of the result of {source.target if source.op == 'call_function' else 'no operation'}"
    try:
        layout = required(value.dtype, device_size, stride_map)
    except ValueError as error:
        return f"require_layout: {error}"
    room = layout.sticks * layout.elements_per_stick
    return None if room >= value.numel() else f"require_layout: room for {room} of {value.numel()} elements"


def required(dtype: torch.dtype, device_size: Any, stride_map: Any) -> SpyreTensorLayout:
    """The layout that was asked for. Raises ValueError if it is none."""
    return SpyreTensorLayout(tuple(device_size), tuple(stride_map), device_format(dtype))


def compact_problem(profile: Profile, node: Node) -> str | None:
    """Why `node`, a compact, is refused: later profiles compact by themselves, 2025-11 does one dimension."""
    if profile.layouts != "of_2025":
        return "spyre.compact"
    source = node.args[0]
    assert isinstance(source, Node)
    return None if source.meta["val"].dim() == 1 else "compact only implemented for 1-D tensors"


def _is_producer(node: Node) -> bool:
    """A matrix product or a pointwise operation; a view of one is not."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    name = f"aten.{target.overloadpacket.__name__}"
    return name in _PRODUCTS or (torch.Tag.pointwise in target.tags and target.overloadpacket.__name__ not in VIEWS)
