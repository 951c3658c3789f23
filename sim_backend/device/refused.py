"""Views and composites that the profile refuses in eager (facts 3.2): they would run without the device's being asked.

torch runs `x[1:]`, `x.expand(...)` or `x.clone()` by itself, on any device. Where the op table says X or U, a kernel of
ours takes their place; inside the simulator's own work (`allowed`) and for fake tensors they stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from sim_backend.device.allow import is_allowed

Dispatch = Callable[..., Any]
_COMPOSITES = (
    "slice.Tensor",
    "select.int",
    "split.Tensor",
    "split_with_sizes",
    "unbind.int",
    "expand",
    "permute",
    "transpose.int",
    "t",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze",
    "clone",
    "matmul",
)
# Composites with a row of their own that torch makes of a refused one: they stay whole.
_BUILT_ON = {"matmul": ("linear",)}


def install(library: torch.library.Library, profile: Any, dispatch: Dispatch) -> None:
    """Register a kernel for every composite that `profile` refuses in eager, and for what torch builds on it."""
    for name in _COMPOSITES:
        func = _overload(name)
        if profile.cell(str(func), "eager") in ("X", "U"):
            for replaced in (func, *map(_overload, _BUILT_ON.get(name, ()))):
                library.impl(replaced.name(), _kernel(replaced, dispatch), allow_override=True)


def _overload(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    func: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return func


def _kernel(func: OpOverload, dispatch: Dispatch) -> Dispatch:
    key = _composite_key(func)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        plain = is_allowed() or any(isinstance(a, FakeTensor) for a in args)
        return func._op_dk(key, *args, **kwargs) if plain else dispatch(func, *args, **kwargs)

    return kernel


def _composite_key(func: OpOverload) -> DispatchKey:
    for key in (DispatchKey.CompositeExplicitAutograd, DispatchKey.CompositeImplicitAutograd):
        if func.has_kernel_for_dispatch_key(key):
            return key
    raise RuntimeError(f"{func} is no composite")
