"""The ideal DL16 device: every device operation's result and every weight rounded to DL16, accumulation in fp32.

An executor of its own on the CPU, independent of the simulator's compiler and numerics, so that the two can disagree.
DL16 (device facts 1.6): 1 sign, 6 exponent bits (bias 31), 9 fraction bits, no subnormals, ties away from zero
("nearest, ties up" on the magnitude). Unlike the device, results beyond the range saturate, so that the fp32 mask
minimum of stock models stays usable; NaN stays NaN. Operators that the device runs in several operations (facts 3.4:
addmm, layer norm as exx2, layernormscale, layernormnorm, softmax) are rounded after each. Tables that depend on
positions only (rotary modules: no parameters) are made in fp32 and rounded once, as a host would make them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from pipeline.verification.parts import Batch, eager_attention, module_hooks, reference_run

DL16_MAX = (1 + 510 / 512) * 2.0**32
DL16_MIN = 2.0**-31 * (1 + 1 / 512)
_HALF_STEP, _KEEP = 1 << 13, ~((1 << 14) - 1)  # fp32 has 23 fraction bits, DL16 keeps 9 of them


def round_normal_(x: Tensor) -> Tensor:
    """Rounds an fp32 tensor to 9 fraction bits in place, saturating, below half the smallest DL16 value to zero.

    Exact except between half the smallest value and that value (4.7e-10), which keeps 9 bits. NaN stays NaN.
    """
    x.view(torch.int32).add_(_HALF_STEP).bitwise_and_(_KEEP)
    x.clamp_(-DL16_MAX, DL16_MAX)
    shrunk: Tensor = torch.ops.aten.hardshrink.out(x, DL16_MIN / 2, out=x)
    return shrunk


def round_dl16(x: Tensor) -> Tensor:
    """A copy rounded to DL16 values, exactly: nearest, ties away from zero, saturating; NaN stays NaN."""
    copy = round_normal_(x.clone(memory_format=torch.contiguous_format))
    below = (copy.abs() < DL16_MIN) & (copy != 0)
    return torch.where(below, torch.full_like(copy, DL16_MIN).copysign(copy), copy)


def _r(x: Tensor) -> Tensor:
    """Rounds a fresh intermediate result in place."""
    return round_normal_(x)


class Conversion(NamedTuple):
    """How weights reach the device: from which host dtype, and how its bits are cut (a profile's `h2d_rounding`).

    A device cannot be better than its converter, so the ideal run has the profile's. The default rounds fp32 once.
    """

    dtype: torch.dtype = torch.float32
    rounding: str = "nearest_up"

    def apply(self, weight: Tensor) -> Tensor:
        """The fp32 values that the device holds for an fp32 weight. Raises ValueError on an unknown rounding."""
        host = weight.to(self.dtype).float() if self.dtype is not torch.float32 else weight.clone()
        if self.rounding not in _CUTS:
            raise ValueError(f"unknown rounding {self.rounding!r}, known: {', '.join(_CUTS)}")
        return _CUTS[self.rounding](host)


def _truncate_(x: Tensor) -> Tensor:
    x.view(torch.int32).bitwise_and_(_KEEP)
    return x.clamp_(-DL16_MAX, DL16_MAX)


def _nearest_even_(x: Tensor) -> Tensor:
    bits = x.view(torch.int32)
    bits.add_((bits >> 14 & 1) + (_HALF_STEP - 1)).bitwise_and_(_KEEP)
    return x.clamp_(-DL16_MAX, DL16_MAX)


_CUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "nearest_up": round_normal_,
    "nearest_even": _nearest_even_,
    "truncate": _truncate_,
}
FP32_NEAREST = Conversion()


def _addmm(bias: Tensor, a: Tensor, b: Tensor, **_: Any) -> Tensor:
    return _r(_r(a @ b) + bias)


def _layer_norm(x: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    """exx2 (mean and mean square), layernormscale (reciprocal deviation), layernormnorm, each result rounded once.

    The variance is never taken below zero: a device that does so has a defect (E-14).
    """
    mean, square = _r(x.mean(-1, keepdim=True)), _r(x.pow(2).mean(-1, keepdim=True))
    scale = _r(torch.rsqrt((square - mean * mean).clamp(min=0) + eps))
    out = (x - mean) * scale
    out = out * weight if weight is not None else out
    return _r(out + bias if bias is not None else out), mean, scale


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    exponentials = _r(torch.exp(_r(x - x.amax(dim, keepdim=True))))
    return _r(exponentials / _r(exponentials.sum(dim, keepdim=True)))


_aten = torch.ops.aten
_STEPS: dict[Any, Callable[..., Any]] = {_aten.addmm.default: _addmm, _aten._softmax.default: _softmax}


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    if func is _aten.native_layer_norm.default and len(args[1]) == 1:
        return _layer_norm(*args)
    steps = _STEPS.get(func)
    if steps is not None and args[0].dtype == torch.float32:
        return steps(*args, **kwargs)
    return tree_map_only(Tensor, _rounded, func(*args, **kwargs))


def _rounded(x: Tensor) -> Tensor:
    return round_normal_(x) if x.dtype == torch.float32 and x.numel() else x


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


class IdealDL16(TorchDispatchMode):
    """Rounds the fp32 result of every operator; `paused` counts the host tables being made."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator in fp32 and rounds what it wrote; views are of values already rounded."""
        if self.paused or _is_view(func):
            return func(*args, **(kwargs or {}))
        return _run(func, args, kwargs or {})


@contextmanager
def rounded_parameters(model: nn.Module, conversion: Conversion = FP32_NEAREST) -> Iterator[None]:
    """The model's fp32 parameters as the device holds them for the time of the block.

    Lookup tables are left: what is looked up is rounded.
    """
    tables = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    stock = [(p, p.data) for p in model.parameters() if p.dtype == torch.float32 and id(p) not in tables]
    for parameter, data in stock:
        parameter.data = conversion.apply(data)
    try:
        yield
    finally:
        for parameter, data in stock:
            parameter.data = data


def ideal_run(model: nn.Module, batch: Batch, conversion: Conversion = FP32_NEAREST) -> Tensor:
    """Last hidden state of the ideal DL16 device, (batch, length, width) fp32 on the CPU. The model is unchanged.

    `conversion` is the profile's way of bringing weights to the device. Raises ValueError unless every floating
    parameter is fp32.
    """
    odd = {p.dtype for p in model.parameters() if p.is_floating_point()} - {torch.float32}
    if odd:
        raise ValueError(f"the ideal run needs fp32 parameters, found {sorted(map(str, odd))}")
    mode = IdealDL16()
    with eager_attention(model), rounded_parameters(model, conversion), _host_tables(model, mode), mode:
        return reference_run(model, batch)


DL16, BF16 = "dl16", "bfloat16"


class Yardstick(NamedTuple):
    """The run whose error a device's error is divided by, (batch, length, width) fp32, and which one it is."""

    output: Tensor
    name: str


def yardstick_run(model: nn.Module, batch: Batch, conversion: Conversion = FP32_NEAREST) -> Yardstick:
    """The ideal DL16 run; where that or a weight on its way to it is not finite, the stock model in bf16 on the CPU.

    A weight beyond the host dtype would saturate on the device: such a run is no yardstick for anything.
    """
    if all(bool(p.to(conversion.dtype).isfinite().all()) for p in model.parameters()):
        found = ideal_run(model, batch, conversion)
        if bool(found[batch["attention_mask"].bool()].isfinite().all()):
            return Yardstick(found, DL16)
    return Yardstick(bf16_run(model, batch), BF16)


def bf16_run(model: nn.Module, batch: Batch) -> Tensor:
    """Last hidden state of a bf16 copy of the model on the CPU, (batch, length, width) fp32. The model is unchanged."""
    return reference_run(copy.deepcopy(model).to(torch.bfloat16), batch).float()


@contextmanager
def _host_tables(model: nn.Module, mode: IdealDL16) -> Iterator[None]:
    def start(*_: Any) -> None:
        mode.paused += 1

    def stop(_module: nn.Module, _args: Any, _kwargs: Any, out: Any) -> Any:
        mode.paused -= 1
        return tree_map_only(Tensor, lambda x: round_dl16(x) if x.dtype == torch.float32 else x, out)

    with module_hooks([m for m in model.modules() if _makes_tables(m)], start, stop):
        yield


def _makes_tables(module: nn.Module) -> bool:
    has_buffer = any(b.is_floating_point() for b in module.buffers(recurse=False))
    return has_buffer and not any(True for _ in module.parameters())
