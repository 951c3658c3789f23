"""The element-wise forms of the bench, as data: stock, what is refused, a form that is right, some that are not.

Near misses are mistakes that were made in the wild or that a model is likely to make; each must be refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Function = Callable[[Tensor], Tensor]

NEW, OLD = "profile-2026-08", "profile-2026-04"
C = math.sqrt(2 / math.pi)


class Written(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """The function's value, of the shape of `x`."""
        return self.function(x)


@dataclass(frozen=True)
class Form:
    """One form. `refused` are the operations that must go; `bound` is what the reference claims, None if exact."""

    name: str
    pattern: str
    stock: Function
    refused: tuple[str, ...]
    reference: Function
    near_misses: tuple[Function, ...]
    bound: float | None = None
    profiles: tuple[str, ...] = (NEW, OLD)


POW, BASE = "aten.pow.Tensor_Scalar", "aten.pow.Scalar"


def tanh_gelu(x: Tensor, factor: float = 0.044715, scale: float = C) -> Tensor:
    """The tanh form of GELU with its cube as a product."""
    return x * torch.sigmoid((x * (x * x * factor + 1)) * (2 * scale))


def held_gelu(x: Tensor, scale: float = C) -> Tensor:
    """The same with the argument held where the sigmoid is 0 or 1, so that no cube leaves the device's range."""
    y = x.clamp(-40.0, 40.0)
    return x * torch.sigmoid((y * (y * y * 0.044715 + 1)) * (2 * scale))


def erf(x: Tensor, last: float = 1.061405429) -> Tensor:
    """Abramowitz and Stegun 7.1.26."""
    x = x.clamp(-10.0, 10.0)
    t = torch.reciprocal(x.abs() * 0.3275911 + 1.0)
    p = t * (t * (t * (t * (t * last - 1.453152027) + 1.421413741) - 0.284496736) + 0.254829592)
    y = torch.neg(p * torch.exp(torch.neg(x * x))) + 1.0
    return torch.where(x >= 0, y, torch.neg(y))


def softplus(x: Tensor) -> Tensor:
    """max(x, 0) + log(1 + exp(-|x|))."""
    return torch.relu(x) + torch.log(torch.exp(torch.neg(torch.abs(x))) + 1.0)


def elu(x: Tensor, a: float = 1.0) -> Tensor:
    """relu(x) + a (exp(min(x, 0)) - 1)."""
    return torch.relu(x) + (torch.exp(torch.neg(torch.relu(torch.neg(x)))) - 1.0) * a


FORMS: tuple[Form, ...] = (
    Form(
        "cube", "P01", lambda x: torch.pow(x, 3.0), (POW,), lambda x: x * x * x,
        (lambda x: x * x, lambda x: x * x * torch.abs(x), lambda x: x * x * x * 1.001),
    ),
    Form(
        "fourth power", "P01", lambda x: torch.pow(x, 4.0), (POW,), lambda x: (x * x) * (x * x),
        (lambda x: x * x * x, lambda x: x * x * x * torch.abs(x) * 1.01, lambda x: (x * x) + (x * x)),
    ),
    Form(
        "fifth power", "P01", lambda x: torch.pow(x, 5.0), (POW,), lambda x: (x * x) * (x * x) * x,
        (lambda x: (x * x) * (x * x), lambda x: (x * x) * (x * x) * torch.abs(x), lambda x: x * x * x * x * x * 0.999),
    ),
    Form(
        "half power", "P01", lambda x: torch.pow(x, 0.5), (POW,), torch.sqrt,
        (torch.rsqrt, lambda x: torch.sqrt(torch.abs(x)), lambda x: torch.sqrt(x + 1e-6)),
    ),
    Form(
        "minus half power", "P01", lambda x: torch.pow(x, -0.5), (POW,), torch.rsqrt,
        (torch.sqrt, lambda x: torch.rsqrt(torch.abs(x)), lambda x: torch.rsqrt(x + 1e-6)),
    ),
    Form(
        "minus one power", "P01", lambda x: torch.pow(x, -1.0), (POW,), torch.reciprocal,
        (torch.rsqrt, torch.neg, lambda x: torch.reciprocal(x + 1e-6)),
    ),
    Form(
        "three halves power", "P01", lambda x: torch.pow(x, 1.5), (POW,), lambda x: x * torch.sqrt(x),
        (lambda x: torch.sqrt(x), lambda x: x * torch.sqrt(torch.abs(x)), lambda x: x * x * torch.rsqrt(x + 1e-6)),
    ),
    Form(
        "base two", "P01", lambda x: torch.pow(2.0, x), (BASE,), lambda x: torch.exp(x * math.log(2)),
        (torch.exp, lambda x: torch.exp(x * 0.6931), lambda x: torch.exp(x * math.log(3))), 1e-12,
    ),
    Form(
        "gelu_new", "P02",
        lambda x: 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * torch.pow(x, 3.0)))), (POW,), tanh_gelu,
        (lambda x: tanh_gelu(x, 0.44715), lambda x: tanh_gelu(x, scale=0.8), lambda x: x * torch.sigmoid(1.702 * x),
         F.gelu),
    ),
    Form(
        "gelu_fast", "P02",
        lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))), ("aten.tanh.default",),
        lambda x: held_gelu(x, 0.7978845608),
        (lambda x: tanh_gelu(x, 0.44715), lambda x: tanh_gelu(x, scale=0.39894),
         lambda x: x * torch.sigmoid(1.702 * x)),
    ),
    Form(
        "gelu of the tanh kind", "P02", lambda x: F.gelu(x, approximate="tanh"), ("aten.gelu.default",),
        held_gelu,
        (lambda x: tanh_gelu(x, 0.44715), lambda x: tanh_gelu(x, 0.0), lambda x: x * torch.sigmoid(1.702 * x)),
    ),
    Form(
        "erf", "P03", torch.erf, ("aten.erf.default",), erf,
        (torch.tanh, lambda x: erf(x, 1.06), lambda x: torch.tanh(x * 1.1283791670955126)), 1.5e-7,
    ),
    Form(
        "gelu by erf", "P03", lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), ("aten.erf.default",), F.gelu,
        (tanh_gelu, lambda x: x * torch.sigmoid(1.702 * x), F.silu),
    ),
    Form(
        "quick gelu", "P04", lambda x: x * torch.sigmoid(1.702 * x), ("aten.sigmoid.default",),
        lambda x: x * ((torch.tanh(x * 0.851) + 1.0) * 0.5),
        (F.gelu, F.silu, lambda x: x * ((torch.tanh(x * 1.702) + 1.0) * 0.5)),
    ),
    Form(
        "silu", "P05", F.silu, ("aten.silu.default",), lambda x: x * torch.sigmoid(x),
        (torch.sigmoid, F.gelu, lambda x: x * torch.sigmoid(2 * x)),
    ),
    Form(
        "sigmoid", "P05", torch.sigmoid, ("aten.sigmoid.default",), lambda x: (torch.tanh(x * 0.5) + 1.0) * 0.5,
        (torch.tanh, lambda x: (torch.tanh(x) + 1.0) * 0.5, lambda x: x.clamp(0.0, 1.0)),
    ),
    Form(
        "tanh", "P05", torch.tanh, ("aten.tanh.default",), lambda x: torch.sigmoid(x * 2.0) * 2.0 - 1.0,
        (torch.sigmoid, lambda x: torch.sigmoid(x) * 2.0 - 1.0, lambda x: x.clamp(-1.0, 1.0)),
    ),
    Form(
        "softplus", "P05", F.softplus, ("aten.softplus.default",), softplus,
        (lambda x: torch.log(torch.exp(x) + 1.0), torch.relu, lambda x: softplus(x) * 1.0001), 2.1e-9,
    ),
    Form(
        "scaled softplus", "P05", lambda x: F.softplus(x, beta=2.0), ("aten.softplus.default",),
        lambda x: softplus(x * 2.0) * 0.5, (softplus, lambda x: softplus(x * 2.0), lambda x: softplus(x * 0.5) * 2.0),
        2.1e-9,
    ),
    Form(
        "squared relu", "P05", lambda x: torch.pow(torch.relu(x), 2.0), (POW,), lambda x: torch.relu(x) * torch.relu(x),
        (torch.relu, lambda x: x * x, lambda x: torch.relu(x) * torch.abs(x) * 1.001),
    ),
    Form(
        "mish", "P05", F.mish, ("aten.mish.default",), lambda x: x * torch.tanh(softplus(x)),
        (F.silu, lambda x: x * torch.sigmoid(softplus(x)), lambda x: x * torch.tanh(torch.relu(x))), 1e-14,
    ),
    Form(
        "elu", "P05", F.elu, ("aten.elu.default",), elu,
        (torch.relu, lambda x: elu(x, 0.5), lambda x: torch.exp(x) - 1.0), 1e-15,
    ),
    Form(
        "leaky relu", "P05", lambda x: F.leaky_relu(x, 0.2), ("aten.leaky_relu.default",),
        lambda x: torch.relu(x) - torch.relu(torch.neg(x)) * 0.2,
        (torch.relu, lambda x: torch.relu(x) + torch.relu(torch.neg(x)) * 0.2,
         lambda x: torch.relu(x) - torch.relu(torch.neg(x)) * 0.01),
    ),
    Form(
        "relu6", "P08", lambda x: F.hardtanh(x, 0.0, 6.0), ("aten.hardtanh.default",), lambda x: x.clamp(0.0, 6.0),
        (torch.relu, lambda x: x.clamp(-6.0, 6.0), lambda x: x.clamp(0.0, 1.0)),
    ),
    Form(
        "least", "P08", lambda x: torch.minimum(x, torch.tanh(x)), ("aten.minimum.default",),
        lambda x: torch.neg(torch.maximum(torch.neg(x), torch.neg(torch.tanh(x)))),
        (lambda x: torch.maximum(x, torch.tanh(x)), torch.tanh, lambda x: torch.neg(torch.maximum(x, torch.tanh(x)))),
    ),
    Form(
        "division", "P09", lambda x: torch.tanh(x) / (1.0 + torch.exp(x)), ("aten.div.Tensor",),
        lambda x: torch.tanh(x) * torch.reciprocal(1.0 + torch.exp(x)),
        (lambda x: torch.tanh(x) * (1.0 + torch.exp(x)), lambda x: torch.tanh(x) * torch.exp(torch.neg(x)),
         lambda x: torch.tanh(x) * torch.sigmoid(x)),
    ),
    Form(
        "division by a number", "P09", lambda x: x / 3.0, ("aten.div.Tensor",), lambda x: x * (1.0 / 3.0),
        (lambda x: x * 3.0, lambda x: x * 0.333, lambda x: x * 0.5),
    ),
    Form(
        "laplace", "P03", lambda x: 0.5 * (1.0 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2.0)))),
        ("aten.erf.default",), lambda x: 0.5 * (1.0 + erf((x - 0.707107) * (1.0 / (0.282095 * math.sqrt(2.0))))),
        (torch.sigmoid, lambda x: 0.5 * (1.0 + erf(x - 0.707107)),
         lambda x: 0.5 * (1.0 + torch.tanh((x - 0.707107) * 2.5))), 1.5e-7,
    ),
)  # fmt: skip


def fresh_forms(seed: int, count: int = 24) -> tuple[Form, ...]:
    """Forms drawn from `seed`: other constants and compositions than the public ones, with references of their own."""
    import random

    drawn = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    return tuple(FAMILIES[number % len(FAMILIES)](drawn, number) for number in range(count))


def _power(drawn: object, number: int) -> Form:
    n = 3 + number % 6
    slope = round(0.5 + drawn.random(), 4)  # type: ignore[attr-defined]

    def powered(x: Tensor, times: int) -> Tensor:
        y = x
        for _ in range(times - 1):
            y = y * x
        return y

    return Form(
        f"fresh power {number}", "P01", lambda x: slope * torch.pow(x, float(n)), (POW,),
        lambda x: powered(x, n) * slope,
        (lambda x: powered(x, n - 1) * slope, lambda x: powered(x, n), lambda x: powered(x, n) * (slope * 1.001)),
    )  # fmt: skip


def _gelu(drawn: object, number: int) -> Form:
    factor, scale = round(0.03 + 0.03 * drawn.random(), 6), round(0.6 + 0.4 * drawn.random(), 6)  # type: ignore[attr-defined]
    return Form(
        f"fresh tanh gelu {number}", "P02",
        lambda x: 0.5 * x * (1.0 + torch.tanh(scale * (x + factor * torch.pow(x, 3.0)))), (POW,),
        lambda x: tanh_gelu(x, factor, scale),
        (tanh_gelu, lambda x: tanh_gelu(x, factor * 1.01, scale), lambda x: tanh_gelu(x, factor, scale * 1.01)),
    )  # fmt: skip


def _slopes(drawn: object, number: int) -> Form:
    a = round(0.05 + drawn.random(), 4)  # type: ignore[attr-defined]
    return Form(
        f"fresh elu {number}", "P05", lambda x: F.elu(x, a), ("aten.elu.default",), lambda x: elu(x, a),
        (elu, torch.relu, lambda x: elu(x, a * 1.001)), 1e-15,
    )  # fmt: skip


def _division(drawn: object, number: int) -> Form:
    c = round(1.5 + 8 * drawn.random(), 3)  # type: ignore[attr-defined]
    return Form(
        f"fresh quotient {number}", "P09", lambda x: torch.sigmoid(x / c), ("aten.div.Tensor",),
        lambda x: torch.sigmoid(x * (1.0 / c)),
        (torch.sigmoid, lambda x: torch.sigmoid(x * c), lambda x: torch.sigmoid(x * (1.001 / c))),
    )  # fmt: skip


FAMILIES = (_power, _gelu, _slopes, _division)
