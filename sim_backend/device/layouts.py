"""The Python surface of layouts: which one a device tensor has, and tensors made in a given one (facts 2.2).

The device's own package lets `Tensor.to` and `torch.empty` take `device_layout`. Here `torch.spyre.to` and
`torch.spyre.empty` do: replacing torch's functions would hide them from Dynamo and from `torch.device` contexts.
A layout is a description: values are kept in host order, so it changes no result, only what is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sim_backend.layouts import SpyreTensorLayout, device_format

_HELD = "_spyre_device_layout"


def device_tensor_layout(tensor: torch.Tensor) -> SpyreTensorLayout:
    """The layout of a device tensor: the one it was made in, else the default of its size and strides.

    Raises RuntimeError for a tensor that is not on the device.
    """
    if tensor.device.type != "spyre":
        raise RuntimeError(f"device_tensor_layout: the tensor is on {tensor.device}, not on spyre")
    held: SpyreTensorLayout | None = getattr(tensor, _HELD, None)
    return held or SpyreTensorLayout.of(tensor.shape, tensor.dtype, tensor.stride())


def to(tensor: torch.Tensor, *, device_layout: SpyreTensorLayout) -> torch.Tensor:
    """A copy of `tensor` on the device in `device_layout`. Raises ValueError if the layout does not fit it."""
    _check(device_layout, tensor.shape, tensor.dtype)
    return _held(torch.empty_like(tensor, device="spyre").copy_(tensor), device_layout)


def empty(size: Sequence[int], *, dtype: torch.dtype, device_layout: SpyreTensorLayout) -> torch.Tensor:
    """An uninitialised device tensor in `device_layout`. Raises ValueError if the layout does not fit it."""
    _check(device_layout, size, dtype)
    return _held(torch.empty(tuple(size), dtype=dtype, device="spyre"), device_layout)


def install() -> None:
    """Give tensors the method `device_tensor_layout`."""
    torch.Tensor.device_tensor_layout = device_tensor_layout  # type: ignore[attr-defined]


def _held(tensor: torch.Tensor, layout: SpyreTensorLayout) -> torch.Tensor:
    from sim_backend.device import ext

    setattr(tensor, _HELD, layout)
    ext.recount(tensor, layout.device_bytes)
    return tensor


def _check(layout: Any, size: Sequence[int], dtype: torch.dtype) -> None:
    if not isinstance(layout, SpyreTensorLayout):
        raise TypeError(f"device_layout must be a SpyreTensorLayout, not {type(layout).__name__}")
    if layout.device_dtype != device_format(dtype):
        raise ValueError(
            f"a layout of {layout.device_dtype} for {dtype}, which is {device_format(dtype)} on the device"
        )
    room = layout.sticks * (1 if layout.is_sparse else layout.elements_per_stick)
    elements = torch.Size(size).numel()
    if room < elements:
        raise ValueError(f"device_size {list(layout.device_size)} has room for {room} of {elements} elements")
