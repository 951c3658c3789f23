"""The Python surface of layouts: which one a device tensor has, and tensors made in a given one (facts 2.2).

`Tensor.to` and `torch.empty` take `device_layout`, as the device's own package lets them; `torch.spyre.to` and
`torch.spyre.empty` are the same under a name of their own. A layout is a description: values are kept in host order,
so it changes no result, only what is reported and counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._device import _device_constructors

from sim_backend.layouts import SpyreTensorLayout, device_format

_HELD = "_spyre_device_layout"
replaced: list[Callable[..., Any]] = []
"""torch's own functions that ours stand before: Dynamo, which goes by names, must be told that it knows them."""


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
    """Give tensors the method `device_tensor_layout`, and torch's own functions the argument `device_layout`."""
    if hasattr(torch.Tensor, "device_tensor_layout"):
        return
    torch.Tensor.device_tensor_layout = device_tensor_layout  # type: ignore[attr-defined]
    _device_constructors()  # cached from now on: `with torch.device(...)` knows torch's own function, which ours calls
    replaced.append(torch.empty)
    torch.empty = _taking_layouts(torch.empty, _empty_in)
    torch.Tensor.to = _taking_layouts(torch.Tensor.to, _moved_in)  # type: ignore[method-assign]


def _taking_layouts(plain: Callable[..., Any], made_in: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "device_layout" not in kwargs:
            return plain(*args, **kwargs)
        return made_in(plain, kwargs.pop("device_layout"), *args, **kwargs)

    return call


def _empty_in(plain: Callable[..., Any], layout: Any, *size: Any, **kwargs: Any) -> torch.Tensor:
    kwargs.setdefault("device", "spyre")
    _check_place(kwargs["device"])
    shape = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size
    _check(layout, shape, kwargs.get("dtype") or torch.get_default_dtype())
    return _held(plain(*size, **kwargs), layout)


def _moved_in(plain: Callable[..., Any], layout: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Always a copy, for a tensor has one layout."""
    target = plain(tensor, *args, **kwargs, copy=True) if "copy" not in kwargs else plain(tensor, *args, **kwargs)
    _check_place(target.device)
    _check(layout, target.shape, target.dtype)
    return _held(target, layout)


def _check_place(device: Any) -> None:
    if torch.device(device).type != "spyre":
        raise ValueError(f"device_layout is for tensors on spyre, not on {device}")


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
