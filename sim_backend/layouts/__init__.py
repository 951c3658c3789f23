"""Stick layouts as data: the current model (facts 2.2), and that of 2025-11 (`of_2025`, facts 2.1)."""

from sim_backend.layouts.current import (
    STICK_BYTES,
    CopyLoop,
    ElementArrangement,
    SpyreTensorLayout,
    contiguous_strides,
    copy_loops,
    device_format,
    element_sizes,
    elements_per_stick,
    is_held,
)

__all__ = [
    "STICK_BYTES",
    "CopyLoop",
    "ElementArrangement",
    "SpyreTensorLayout",
    "contiguous_strides",
    "copy_loops",
    "device_format",
    "element_sizes",
    "elements_per_stick",
    "is_held",
]
