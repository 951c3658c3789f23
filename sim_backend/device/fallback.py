"""The CPU fallback of the device's software: inputs move to the host, the operation runs there, results move back.

Right but slow; each call warns and is counted (`fallback_counts`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from sim_backend.device import ext
from sim_backend.device.allow import allowed
from sim_backend.device.compute import call_with, check_devices, shape_of, tuple_of
from sim_backend.device.fallback_counts import note_fallback


def run_on_cpu(op: str, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `func` on host copies in the host's dtypes (fp16 stays fp16) and copy the results to the device."""
    note_fallback(op, stacklevel=5)
    shape = shape_of(func)
    named = dict(zip(shape.names, args, strict=False)) | kwargs
    check_devices(named.values())
    with allowed():
        host = {n: tree_map(_on_host if n in shape.outs else _to_host, value) for n, value in named.items()}
        result = call_with(func, host, len(args))
        for name in shape.written & named.keys():
            _copy_back(named[name], host[name])
        return tuple_of(shape, result, named, lambda r: tree_map(_to_device, r))


def _to_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return ext.host_generator(value) if isinstance(value, torch.Generator) else value


def _on_host(out: Any) -> Any:
    # A result is written, never read: it does not move to the host first.
    return torch.empty_like(out, device="cpu") if isinstance(out, torch.Tensor) else out


def _to_device(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    if extent <= value.numel():
        return value.to("spyre")
    # A part of a larger tensor, as a slice gives it: the compiler has planned with its strides, so they are kept.
    part = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="spyre")
    return part.copy_(value)


def _copy_back(device: Any, host: Any) -> None:
    if isinstance(device, torch.Tensor):
        if device.shape != host.shape:
            device.resize_(host.shape)
        device.copy_(host)
    elif isinstance(device, list | tuple):
        for target, source in zip(device, host, strict=True):
            _copy_back(target, source)
