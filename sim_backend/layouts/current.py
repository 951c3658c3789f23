"""Stick layouts as data: where an element of a host tensor lies on the device, and how a copy gets it there.

A stick holds 128 bytes along one dimension of the host tensor and is the innermost device dimension (facts 1.5, 2.2).
Sizes and strides are in elements. Imports nothing of the simulator but its errors: device and compiler share it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import torch

from sim_backend.errors import Unsupported

STICK_BYTES = 128
SYNTHETIC = -1  # in a stride map: a device dimension that no host dimension fills (padding, sparse lanes)


class _Format(NamedTuple):
    name: str
    bytes: int


# What a host dtype is on the device (facts 1.6): int64 is kept as int32, bool as a 16-bit float.
_FORMATS = {
    torch.float16: _Format("SEN169_FP16", 2),
    torch.bfloat16: _Format("SEN169_FP16", 2),
    torch.bool: _Format("SEN169_FP16", 2),
    torch.float32: _Format("IEEE_FP32", 4),
    torch.int64: _Format("IEEE_INT32", 4),
    torch.int32: _Format("IEEE_INT32", 4),
    torch.uint8: _Format("SENUINT32", 4),
    torch.int16: _Format("SENINT16", 2),
    torch.int8: _Format("SENINT8", 1),
    torch.float8_e4m3fn: _Format("SEN143_FP8", 1),
    torch.float8_e5m2fnuz: _Format("SEN152_FP8", 1),
}


class ElementArrangement(StrEnum):
    """How elements lie inside sticks. All but the first come from one kind of producer (facts 2.2)."""

    STANDARD = "STANDARD"
    DL16_TO_FP32 = "DL16_TO_FP32"
    FP32_TO_DL16 = "FP32_TO_DL16"
    EXX2 = "EXX2"
    QFP8CH = "QFP8CH"
    QFP8WT = "QFP8WT"


def device_format(dtype: torch.dtype) -> str:
    """ "SEN169_FP16" for fp16. Raises Unsupported for a dtype the device does not hold."""
    return _format(dtype).name


def elements_per_stick(dtype: torch.dtype) -> int:
    """64 for fp16 and bf16, 32 for fp32 and int32, 128 for 8-bit formats (facts 1.5)."""
    return STICK_BYTES // _format(dtype).bytes


def element_sizes() -> dict[torch.dtype, int]:
    """Bytes of one element on the device, for every dtype it holds."""
    return {dtype: form.bytes for dtype, form in _FORMATS.items()}


def is_held(dtype: torch.dtype) -> bool:
    """True if the device has a format for `dtype`."""
    return dtype in _FORMATS


def _format(dtype: torch.dtype) -> _Format:
    if dtype not in _FORMATS:
        raise Unsupported(f"dtype {dtype}")
    return _FORMATS[dtype]


class CopyLoop(NamedTuple):
    """One nest of a copy description: at each coordinate in `ranges`, host and device elements go by their strides."""

    ranges: tuple[int, ...]
    host_strides: tuple[int, ...]
    device_strides: tuple[int, ...]
    host_offset: int = 0
    device_offset: int = 0


@dataclass(frozen=True)
class SpyreTensorLayout:
    """Device size, the host stride of each device dimension, the device format, and how elements lie in a stick."""

    device_size: tuple[int, ...]
    stride_map: tuple[int, ...]
    device_dtype: str
    element_arrangement: ElementArrangement = ElementArrangement.STANDARD

    def __post_init__(self) -> None:
        """Raises ValueError unless there is one stride per device dimension and the last dimension is a stick."""
        if len(self.device_size) != len(self.stride_map):
            raise ValueError(f"{len(self.device_size)} device sizes but {len(self.stride_map)} strides")
        sticks = {STICK_BYTES // f.bytes for f in _FORMATS.values() if f.name == self.device_dtype}
        if not sticks:
            raise ValueError(f"unknown device format {self.device_dtype!r}")
        if not self.device_size or self.device_size[-1] not in sticks:
            raise ValueError(f"the last of {list(self.device_size)} is not a stick of {self.device_dtype}")

    @classmethod
    def of(
        cls,
        size: Sequence[int],
        dtype: torch.dtype,
        strides: Sequence[int] | None = None,
        dim_order: Sequence[int] | None = None,
    ) -> SpyreTensorLayout:
        """The layout of a host tensor of `size`: default, or with the dimensions taken in `dim_order`, stick last.

        Host [d0 … dn] becomes device [d1, …, sticks of dn, d0, elements per stick]. Without `strides` the host tensor
        is contiguous. A tensor without dimensions is laid out as one of a single element. Raises ValueError for an
        order that is no permutation, Unsupported for a dtype the device does not hold.
        """
        size = tuple(size) or (1,)
        strides = tuple(strides) if strides else contiguous_strides(size)
        order = tuple(range(len(size))) if dim_order is None else tuple(dim_order)
        if sorted(order) != list(range(len(size))) or len(strides) != len(size):
            raise ValueError(f"dim_order {list(order)} and strides {list(strides)} do not fit size {list(size)}")
        first, middle, stick = order[:1], order[1:-1], order[-1]
        eps = elements_per_stick(dtype)
        outer = first if len(order) > 1 else ()
        device = [*(size[d] for d in middle), -(-size[stick] // eps), *(size[d] for d in outer), eps]
        mapped = [*(strides[d] for d in middle), eps * strides[stick], *(strides[d] for d in outer), strides[stick]]
        return cls(tuple(device), tuple(mapped), device_format(dtype))

    @classmethod
    def sparse(cls, size: Sequence[int], dtype: torch.dtype) -> SpyreTensorLayout:
        """One element per stick, as a reduction along the stick leaves it: `size` is what remains (facts 2.4)."""
        strides = contiguous_strides(tuple(size))
        order = [*range(1, len(size)), 0][: len(size)]
        device = (*(size[d] for d in order), elements_per_stick(dtype))
        return cls(device, (*(strides[d] for d in order), SYNTHETIC), device_format(dtype))

    @property
    def elements_per_stick(self) -> int:
        """The innermost device size."""
        return self.device_size[-1]

    @property
    def is_sparse(self) -> bool:
        """True if a stick holds one element."""
        return self.stride_map[-1] == SYNTHETIC

    @property
    def sticks(self) -> int:
        """Sticks the tensor takes on the device, padding included."""
        return math.prod(self.device_size[:-1])

    @property
    def device_bytes(self) -> int:
        """Bytes on the device, padding included."""
        return self.sticks * STICK_BYTES

    @property
    def device_strides(self) -> tuple[int, ...]:
        """Device memory is dense and row-major over `device_size`."""
        return contiguous_strides(self.device_size)

    def host_offset(self, coordinate: Sequence[int]) -> int:
        """The host element of a device coordinate."""
        return sum(c * s for c, s in zip(coordinate, self.stride_map, strict=True) if s != SYNTHETIC)

    def same_as(self, other: SpyreTensorLayout) -> bool:
        """True if both put every element in the same place; dimensions of size 1 are dropped first (facts 2.2)."""
        return self._comparable() == other._comparable()

    def _comparable(self) -> tuple[object, ...]:
        pairs = zip(self.device_size[:-1], self.stride_map[:-1], strict=True)
        kept = tuple((n, s) for n, s in pairs if n != 1)
        return kept, self.device_size[-1], self.stride_map[-1], self.device_dtype, self.element_arrangement


def contiguous_strides(size: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides; a dimension of size 0 counts as 1, as torch has it."""
    strides, step = [1] * len(size), 1
    for d in range(len(size) - 1, -1, -1):
        strides[d] = step
        step *= max(size[d], 1)
    return tuple(strides)


def copy_loops(layout: SpyreTensorLayout, size: Sequence[int], stick: int = -1) -> tuple[CopyLoop, ...]:
    """The copy description of a host tensor of `size` whose dimension `stick` lies along the sticks.

    One nest over whole sticks and, if the last stick is not full, one over its filled lanes: lanes beyond the size are
    never written (facts 2.3). How the device's runtime splits that is not published; the nests are [I].
    """
    eps = layout.elements_per_stick
    length = tuple(size)[stick] if size else 1
    whole, rest = divmod(length, eps)
    at = _stick_position(layout)
    loops = []
    if whole:
        ranges = _with(layout.device_size, at, whole)
        loops.append(CopyLoop(ranges, layout.stride_map, layout.device_strides))
    if rest:
        ranges = (*_with(layout.device_size, at, 1)[:-1], rest)
        offsets = (whole * layout.stride_map[at], whole * layout.device_strides[at])
        loops.append(CopyLoop(ranges, layout.stride_map, layout.device_strides, *offsets))
    return tuple(loops)


def _stick_position(layout: SpyreTensorLayout) -> int:
    """The device dimension that counts sticks: after the middle dimensions, before the first host dimension."""
    return max(len(layout.device_size) - 3, 0)


def _with(values: Sequence[int], position: int, value: int) -> tuple[int, ...]:
    return (*values[:position], value, *values[position + 1 :])
