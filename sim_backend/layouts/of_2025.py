"""The layouts of 2025-11, at the level of operations: three descriptions that did not agree (facts 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sim_backend.layouts.current import CopyLoop, contiguous_strides, elements_per_stick
from sim_backend.layouts.current import element_sizes as current_sizes

# Host dimensions in the order of the copy path's device dimensions, by rank; "s" counts sticks of the last one.
_COPY_ORDER: dict[int, tuple[int | str, ...]] = {1: ("s",), 2: ("s", 0), 3: (1, "s", 0), 4: (0, "s", 1, 2)}


@dataclass(frozen=True)
class OldTensorLayout:
    """The runtime's description: device dimension i belongs to host dimension `dim_map[i]`. One stick dimension."""

    device_size: tuple[int, ...]
    device_strides: tuple[int, ...]
    dim_map: tuple[int, ...]
    num_stick_dims: int = 1
    format: str = "Dense"

    @classmethod
    def of(cls, size: Sequence[int], dtype: torch.dtype) -> OldTensorLayout:
        """[512, 256] becomes [4, 512, 64] with the map [1, 0, 1]."""
        last = len(size) - 1
        device = (sticks_of(size[-1], dtype), *size[:-1], elements_per_stick(dtype))
        return cls(device, contiguous_strides(device), (last, *range(last), last))


def element_sizes() -> dict[torch.dtype, int]:
    """Bytes of one element on the device: as later, but for bool, which was an 8-bit integer (facts 1.6)."""
    return {**current_sizes(), torch.bool: 1}


def sticks_of(length: int, dtype: torch.dtype) -> int:
    """Whole sticks of a dimension; one that does not fill its sticks is given a single one, which is the defect."""
    eps = elements_per_stick(dtype)
    return length // eps if length % eps == 0 else 1


def copy_loop(size: Sequence[int], dtype: torch.dtype) -> CopyLoop:
    """The copy of a host tensor: its loop runs over the whole size, whatever room the sticks have.

    A last dimension above one stick that does not fill its sticks therefore writes into the next row's memory. Raises
    RuntimeError for a rank above 4. A tensor without dimensions has the shape (1,).
    """
    size = tuple(size) or (1,)
    if len(size) not in _COPY_ORDER:
        raise RuntimeError(f"Unsupported tensor rank: {len(size)}")
    eps, host = elements_per_stick(dtype), contiguous_strides(size)
    order = _COPY_ORDER[len(size)]
    device_size = [sticks_of(size[-1], dtype) if d == "s" else size[int(d)] for d in order] + [eps]
    strides = contiguous_strides(device_size)
    ranges = [*device_size[:-1], eps if size[-1] % eps == 0 else size[-1]]
    host_strides = [eps if d == "s" else host[int(d)] for d in order] + [1]
    return CopyLoop(tuple(ranges), tuple(host_strides), tuple(strides))
