"""What each ATen operation means on the device, for the second executor (facts 3.4): one function an operation.

A function gets the executor's context and the call's own arguments, tensors as values. Single operations are computed
in float64 and rounded once, which is the nearest DL16 value; attention and LayerNorm, several device operations in one,
are computed in float32 as the device's accumulators are [I], and rounded after each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from second_executor.arithmetic import CONSTANT_LIMIT, Accumulator, constant, rounded
from torch import Tensor
from torch.nn import functional as F

from sim_backend.profiles import Profile

aten, prims = torch.ops.aten, torch.ops.prims
Operation = Callable[..., Any]
HALF = (torch.float16, torch.bfloat16)
INFINITY = (1 + (CONSTANT_LIMIT & 0x1FF) / 512) * 2.0 ** ((CONSTANT_LIMIT >> 9) - 31)


@dataclass(frozen=True)
class Context:
    """The call's result dtype and the profile's policies."""

    dtype: torch.dtype
    profile: Profile

    @property
    def half(self) -> bool:
        """True if the result is DL16."""
        return self.dtype in HALF

    @property
    def accumulator(self) -> Accumulator:
        """The profile's sums."""
        return Accumulator.of(self.profile)

    def close(self, value: Tensor) -> Tensor:
        """`value` as a result of the call: rounded to DL16, or in the dtype the graph gives it."""
        return rounded(value) if self.half else value.to(self.dtype)

    def scalar(self, value: Any) -> Any:
        """A scalar operand as the device holds it."""
        return constant(float(value)) if self.half and isinstance(value, int | float) else value


def pointwise(function: Operation) -> Operation:
    """`function` in float64 on tensors, constants as the compiler encodes them."""

    def run(context: Context, *args: Any) -> Tensor:
        return context.close(function(*(_wide(context, a) for a in args)))

    return run


def _wide(context: Context, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    return context.scalar(value)


def exact(function: Operation) -> Operation:
    """Comparisons and selections: `function` on the values; scalars compared with DL16 values are DL16."""

    def run(context: Context, *args: Any) -> Tensor:
        floats = any(isinstance(a, Tensor) and a.is_floating_point() for a in args)
        return function(*(constant(float(a)) if floats and isinstance(a, int | float) else a for a in args))

    return run


# --- arithmetic with factors
def _scaled(context: Context, value: Any, factor: float) -> Any:
    wide = _wide(context, value)
    if factor == 1:
        return wide
    if isinstance(value, Tensor):
        return context.close(wide * context.scalar(factor)).double()
    return context.scalar(value * factor)


def add(context: Context, a: Any, b: Any, *, alpha: float = 1) -> Tensor:
    """a + alpha·b, the product rounded."""
    return context.close(_wide(context, a) + _scaled(context, b, alpha))


def sub(context: Context, a: Any, b: Any, *, alpha: float = 1) -> Tensor:
    """a - alpha·b, the product rounded."""
    return context.close(_wide(context, a) - _scaled(context, b, alpha))


def div(context: Context, a: Any, b: Any) -> Tensor:
    """a / b; a scalar divisor is a product with its reciprocal, a constant."""
    if isinstance(b, Tensor):
        return context.close(_wide(context, a) / _wide(context, b))
    return context.close(_wide(context, a) * context.scalar(1.0 / b))


def power(context: Context, x: Tensor, exponent: float) -> Tensor:
    """The square as a product; other exponents are not part of the comparison."""
    assert exponent == 2, f"pow with {exponent}"
    return context.close(x.double() * x.double())


def clamp(context: Context, x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """Bounds are constants; a missing one is the largest constant of the format."""
    bounds = (-math.inf if low is None else low, math.inf if high is None else high)
    return torch.clamp(x, *(context.scalar(b) for b in bounds))


# --- reductions
def total(context: Context, x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum, in the policy's order for DL16."""
    if context.half:
        return context.accumulator.sum(x, dims, keepdim)
    dims = list(dims) if dims else list(range(x.dim()))
    return x.double().sum(dims, keepdim).to(context.dtype) if x.is_floating_point() else x.sum(dims, keepdim)


def mean(context: Context, x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum divided by the count."""
    summed = total(context, x, dims, keepdim)
    return context.close(summed.double() / context.scalar(x.numel() // summed.numel()))


def extreme(name: str) -> Operation:
    """amax or amin: exact."""

    def run(context: Context, x: Tensor, dims: Sequence[int] = (), keepdim: bool = False) -> Tensor:
        return getattr(torch, name)(x, tuple(dims) or tuple(range(x.dim())), keepdim)

    return run


def product(context: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The product in float64, rounded once."""
    return context.close(x.double().prod() if dim is None else x.double().prod(dim, keepdim))


# --- products
def matmul(context: Context, a: Tensor, b: Tensor) -> Tensor:
    """fp32 accumulation [I], one rounding."""
    return context.close(a @ b)


def addmm(context: Context, bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """mm, then add; factors are products of their own."""
    return context.close(_scaled(context, context.close(a @ b), alpha) + _scaled(context, bias, beta))


# --- several device operations in one
def layer_norm(
    context: Context, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """exx2, layernormscale, layernormnorm: E[x] and E[x²], the reciprocal deviation, the rest, each rounded."""
    if not context.half:
        return torch.native_layer_norm(x, shape, weight, bias, eps)
    share = 1.0 / x.shape[-1]
    centre, square = (rounded(context.accumulator.sum(v, [-1], True) * share) for v in (x, x * x))
    scale = rounded(torch.rsqrt(square - centre * centre + eps))
    normal = (x - centre) * scale
    normal = normal if weight is None else normal * weight
    return rounded(normal if bias is None else normal + bias), centre, scale


def attention(
    context: Context, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0,
    causal: bool = False, debug: bool = False, *, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Scaled q and k, scores, masks, softmax and the product with v, each rounded."""
    close = context.close
    root = math.sqrt(q.shape[-1] ** -0.5 if scale is None else scale)
    scores = close(close(q * root) @ close(k * root).mT)
    infinity = INFINITY if context.half else math.inf
    if mask is not None:
        bias = torch.where(mask, 0.0, -infinity) if mask.dtype == torch.bool else mask
        scores = close(scores + bias)
    if causal:
        below = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = close(scores + torch.where(below, 0.0, -infinity))
    exponentials = close(torch.exp(close(scores - scores.amax(-1, keepdim=True))))
    summed = total(context, exponentials, [-1], True)
    return (close(close(exponentials / summed) @ v),)


# --- moves and conversions
def _move(function: Operation) -> Operation:
    return lambda context, *args, **layout: function(*args)  # a memory format does not change values


def convert(context: Context, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A change of dtype."""
    if context.dtype == torch.bool:
        return x != 0
    return context.close(x) if x.dtype != context.dtype else x


def filled(context: Context, size: Sequence[int], value: float, **kwargs: Any) -> Tensor:
    """A tensor of one constant."""
    held = torch.float32 if context.half else context.dtype
    return torch.full(list(size), context.scalar(value), dtype=held)


def scalar_tensor(context: Context, value: float, **kwargs: Any) -> Tensor:
    """A 0-dim constant."""
    return filled(context, [], value)


_POINTWISE: dict[str, Operation] = {
    **{name: getattr(torch, name) for name in (
        "exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "neg", "abs", "mul", "maximum", "minimum",
        "floor", "ceil", "sign", "relu",
    )},
    "silu": F.silu,
    "mish": F.mish,
}  # fmt: skip
_EXACT = ("eq", "ne", "lt", "le", "gt", "ge", "where", "logical_not", "logical_and", "logical_or", "bitwise_and",
          "bitwise_not")  # fmt: skip
_MOVES = (
    "view", "reshape", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze", "slice", "select", "cat", "clone",
    "alias", "embedding", "index_select", "index", "flip", "constant_pad_nd", "split", "split_with_sizes", "unbind",
    "triu", "stack", "_unsafe_view",
)  # fmt: skip

OPERATIONS: dict[Any, Operation] = {
    **{getattr(aten, name): pointwise(function) for name, function in _POINTWISE.items()},
    **{getattr(aten, name): exact(getattr(aten, name)) for name in _EXACT},
    **{getattr(aten, name): _move(getattr(aten, name)) for name in _MOVES},
    aten.gelu: lambda c, x, *, approximate="none": c.close(F.gelu(x.double(), approximate=approximate)),
    aten.softplus: lambda c, x, beta=1, limit=20: c.close(F.softplus(x.double(), beta, limit)),
    aten.clamp: clamp,
    aten.clamp_min: clamp,
    aten.clamp_max: lambda context, x, high: clamp(context, x, None, high),
    aten.add: add,
    aten.sub: sub,
    aten.div: div,
    aten.pow: power,
    aten.sum: total,
    aten.mean: mean,
    aten.amax: extreme("amax"),
    aten.amin: extreme("amin"),
    aten.prod: product,
    aten.any: lambda c, x, *args: torch.any(x != 0, *args),
    aten.mm: matmul,
    aten.bmm: matmul,
    aten.addmm: addmm,
    aten.native_layer_norm: layer_norm,
    aten._scaled_dot_product_fused_attention_overrideable: attention,
    aten._to_copy: convert,
    prims.convert_element_type: convert,
    prims.rev: lambda context, x, dims: torch.flip(x, dims),
    aten.full: filled,
    aten.scalar_tensor: scalar_tensor,
}
VIEWS = frozenset(
    getattr(aten, name) for name in (
        "view", "reshape", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze", "slice", "select", "alias",
        "split", "split_with_sizes", "unbind", "_unsafe_view",
    )
)  # fmt: skip
