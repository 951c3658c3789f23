"""Running pieces of a model on the device: uploads that keep strides and offsets, compilation, results on the host.

The device computes in 16 bits: fp32 values are narrowed to fp16 on the host, where the model itself would be.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from adapters.runner import forward_of
from pipeline.diagnosis.wrong_values.narrow import narrow_dtype

DEVICE = "spyre"
DEVICE_MAX = 8.5e9
"""About the largest value of the device's 16 bits. Beyond it lie the fills of masks, which become -inf on the host."""
REFUSED = (RuntimeError, NotImplementedError, torch._dynamo.exc.TorchDynamoException)
"""What a compiler or device that refuses a program raises."""


class Refused(Exception):
    """The device refuses the program: loud, hence no silent wrong value. `error` is what it raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error)[:500])
        self.error = error

    @property
    def words(self) -> str:
        """What the device said, without the compiler's wrapping."""
        return str(getattr(self.error, "inner_exception", None) or self.error)[:500]


def upload(value: Any, dtype: torch.dtype | None = None) -> Any:
    """A CPU tensor on the device, fp32 in the search's dtype (or `dtype`), strides kept, and the offset of a view."""
    if not isinstance(value, torch.Tensor):
        return value
    wanted = dtype or (narrow_dtype() if value.dtype == torch.float32 else value.dtype)
    if value.storage_offset() == 0:
        return _moved(value, wanted)
    whole = torch.as_strided(value, (value.untyped_storage().nbytes() // value.itemsize,), (1,), 0)
    moved = _moved(whole, wanted)
    return torch.as_strided(moved, value.shape, value.stride(), value.storage_offset())


def _moved(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Narrowed on the host; on the device where the host's fp16 would overflow and the device's 16 bits do not."""
    if not value.is_floating_point():
        return value.to(DEVICE)
    if only_device_holds(value):
        return value.to(DEVICE).to(dtype)
    if dtype is torch.bfloat16:  # the device keeps of it what float16 has
        return filled_as(value, torch.float16).half().to(DEVICE).to(dtype)
    return (value if value.dtype == dtype else filled_as(value, dtype)).to(dtype).to(DEVICE)


def filled_as(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The value with the fill of a mask as a model of `dtype` writes it: the lowest number of that dtype, not -inf."""
    lowest = torch.finfo(dtype).min
    return torch.where(value < lowest, lowest, value) if bool((value < -DEVICE_MAX).any()) else value


def only_device_holds(value: torch.Tensor) -> bool:
    """True for values that fp16 cannot hold and the device's 16 bits can; the fill of a mask is neither."""
    if value.dtype != torch.float32 or value.numel() == 0:
        return False
    return torch.finfo(torch.float16).max < float(value.detach().abs().max()) < DEVICE_MAX


def fetch(value: torch.Tensor) -> torch.Tensor:
    """A device tensor on the host; floats as fp32, converted on the way, so that fp16 limits nothing."""
    return value.to(device="cpu", dtype=torch.float32) if value.is_floating_point() else value.cpu()


def run_compiled(function: Callable[..., Any], values: list[torch.Tensor]) -> list[torch.Tensor]:
    """`function` compiled as one graph on device tensors; tensor results on the host. Raises Refused."""
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            result = torch.compile(function, fullgraph=True, dynamic=False)(*values)
            return [fetch(t) for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    except REFUSED as error:
        raise Refused(error) from error


class DeviceBlocks:
    """Blocks on the device, one at a time; blocks of one class share a compiled function, as in production."""

    def __init__(self) -> None:
        self._compiled: dict[Any, Callable[..., Any]] = {}

    def place(self, block: torch.nn.Module) -> Callable[..., Any]:
        """A compiled 16-bit copy of `block` on the device; raises Refused when called, if the device refuses it."""
        forward = forward_of(block)
        if forward not in self._compiled:
            self._compiled[forward] = torch.compile(forward, fullgraph=True, dynamic=False)
        moved = copy.deepcopy(block).half().to(DEVICE).to(narrow_dtype())
        bound = types.MethodType(self._compiled[forward], moved)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                with torch.no_grad():
                    return bound(*args, **kwargs)
            except REFUSED as error:
                raise Refused(error) from error

        return call
