"""Functions of one DL16 operand, correctly rounded, by a table over all codes.

How far the device's transcendentals are off is unknown; the default is the correctly rounded value (facts section 8),
which float32 kernels do not give where terms cancel (gelu below -3) or overflow on the way. A table is computed in
float64 once per process, function and rounding; applying it is one look-up an element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from sim_backend.numerics import Rounding, _ext, decode, encode, op_rounding

_ROOT = 2.0**-0.5


def _gelu(x: Tensor) -> Tensor:
    return x * 0.5 * torch.erfc(-x * _ROOT)


def _gelu_tanh(x: Tensor) -> Tensor:
    return x * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))


def _silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelufwd": _gelu,
    "gelufwd_tanh": _gelu_tanh,
    "silu": _silu,
    "mish": torch.nn.functional.mish,
    "softplus": torch.nn.functional.softplus,
}


def unary(name: str, x: Tensor, *parameters: float) -> Tensor:
    """The DL16 result of the function `name` of FUNCTIONS on float32 values of the DL16 grid: a new tensor.

    `parameters` are the function's further arguments (softplus: beta and threshold).
    """
    result: Tensor = _ext().map_codes(x, table(name, op_rounding(), *parameters))
    return result


@cache
def table(name: str, rounding: Rounding, *parameters: float) -> Tensor:
    """The function's value of each code from 0 to 0xFFFF, rounded to DL16; float32, read only."""
    codes = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    function = partial(FUNCTIONS[name], **dict(zip(("beta", "threshold"), parameters, strict=False)))
    assert rounding is op_rounding(), "a table is made under the rounding it is for"
    return decode(encode(_to_odd(function(decode(codes).double()))))


def _to_odd(exact: Tensor) -> Tensor:
    """float64 to float32, inexact values to the odd neighbour, so that rounding once more is rounding once."""
    nearest = exact.float()
    bits = nearest.view(torch.int32)
    beyond = nearest.double().abs() > exact.abs()  # rounded away from zero: one step back
    odd = (bits - beyond.to(torch.int32)) | (nearest.double() != exact).to(torch.int32)
    return torch.where(nearest.isfinite(), odd, bits).view(torch.float32)
