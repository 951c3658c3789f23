"""What the device's compiler makes of one ATen call, as steps on float32 values: results round after each step.

Eager operations of 2026-05 onward are compiled ones (facts 3.1), so an eager call takes the steps that its compiled
form takes (facts 3.4), accumulates as the profile says and rounds scalars as the encoder of constants does. An
operation that is not listed is one step: computed in float32 and rounded once. Steps get their arguments by the
schema's names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from sim_backend.device.naming import user_op
from sim_backend.numerics import round_constant, round_dl16_
from sim_backend.numerics.products import Product, product_by
from sim_backend.numerics.sums import Sum, plain_sum, sum_by
from sim_backend.numerics.unary import unary
from sim_backend.profiles import Profile

Step = Callable[..., Any]
_DL16 = (torch.float16, torch.bfloat16)


def _same(value: Any) -> Any:
    return value


def _rounded(value: Tensor) -> Tensor:
    return round_dl16_(value if value.is_contiguous() else value.contiguous())


@dataclass(frozen=True)
class Arithmetic:
    """How one format computes: DL16 rounds every result and scalar and accumulates by policy, fp32 does neither."""

    half: bool
    profile: Profile
    rounded: Callable[[Tensor], Tensor]
    constant: Callable[[float], float]
    total: Sum  # over the last dimensions
    product: Product  # of matrices, by its own policy

    def unary(self, name: str, value: Tensor) -> Tensor:
        """The function `name` of one operand."""
        return unary(name, value) if self.half else getattr(torch, name)(value)

    def sum(self, value: Tensor, dims: Sequence[int] | None, keepdim: bool) -> Tensor:
        """The sum over `dims` (None or empty: all), in the order of the accumulation policy."""
        if not value.dim():
            return value.clone()
        reduced = sorted({d % value.dim() for d in dims} if dims else range(value.dim()))
        kept = [d for d in range(value.dim()) if d not in reduced]
        total = self.total(value.permute(*kept, *reduced), len(reduced))
        sizes = [1 if d in reduced else n for d, n in enumerate(value.shape)]
        return total.reshape(sizes if keepdim else [n for d, n in enumerate(value.shape) if d not in reduced])

    def mean(self, value: Tensor, dims: Sequence[int] | None, keepdim: bool) -> Tensor:
        """The sum divided by the count, which is a constant."""
        total = self.sum(value, dims, keepdim)
        return self.rounded(total / self.constant(value.numel() / max(total.numel(), 1)))


def arithmetic(profile: Profile, *, half: bool) -> Arithmetic:
    """The arithmetic of DL16 (`half`) or fp32 under `profile`."""
    numerics = profile.numerics
    if not half:
        return Arithmetic(False, profile, _same, _same, plain_sum, torch.matmul)
    total = sum_by(profile.reduction_accumulation, numerics["reduction_chunk"])
    product = product_by(numerics["matmul_accumulation"], numerics["matmul_chunk"])
    return Arithmetic(True, profile, _rounded, round_constant, total, product)


_active: dict[bool, Arithmetic] = {}  # by `half`; empty until the device starts


def install(profile: Profile) -> None:
    """Eager operations compute as `profile` says from now on."""
    _active.update({half: arithmetic(profile, half=half) for half in (True, False)})


def steps_for(func: OpOverload, dtype: torch.dtype, host: dict[str, Any]) -> Step | None:
    """The steps of `func` on the host values `host`, to be called with them by name; None if it is one step.

    `dtype` is that of floating results. Integers take the way through fp32 where the profile says so.
    """
    if not _active:
        return None
    a = _active[dtype in _DL16]
    op = user_op(func)
    tensors = [v for v in host.values() if isinstance(v, Tensor)]
    if not any(t.is_floating_point() for t in tensors):
        return _through_fp32(a, func, op, tensors)
    step = _STEPS.get(op)
    if step is None or (a.profile.ideal and not a.half) or any(t.numel() == 0 for t in tensors):
        return None
    return partial(step, a)


def _through_fp32(a: Arithmetic, func: OpOverload, op: str, tensors: Sequence[Tensor]) -> Step | None:
    """Integer arithmetic by way of fp32, exact to 2^24 only (facts 1.6)."""
    through = a.profile.content["int_through_fp32"]
    if not through or op not in _INTEGER or not set(a.profile.needs(op)) & set(through):
        return None
    dtype = reduce(torch.promote_types, (t.dtype for t in tensors))
    if dtype not in (torch.int32, torch.int64):
        return None
    function = _INTEGER[op]
    return lambda **values: function(*(_as_fp32(v) for v in values.values())).to(dtype)


def _as_fp32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) else value


# --- pointwise
def _operand(a: Arithmetic, value: Any) -> Any:
    return value if isinstance(value, Tensor) else a.constant(float(value))


def _scaled(a: Arithmetic, value: Any, factor: float) -> Any:
    if factor == 1:
        return _operand(a, value)
    if not isinstance(value, Tensor):
        return a.constant(float(value) * float(factor))
    return a.rounded(value * a.constant(float(factor)))


def _sum_of_two(a: Arithmetic, self: Any, other: Any, alpha: float = 1) -> Tensor:
    return a.rounded(_operand(a, self) + _scaled(a, other, alpha))


def _difference(a: Arithmetic, self: Any, other: Any, alpha: float = 1) -> Tensor:
    return a.rounded(_operand(a, self) - _scaled(a, other, alpha))


def _reversed_difference(a: Arithmetic, self: Any, other: Any, alpha: float = 1) -> Tensor:
    return a.rounded(_operand(a, other) - _scaled(a, self, alpha))


def _binary(function: Callable[[Any, Any], Tensor]) -> Step:
    return lambda a, self, other: a.rounded(function(_operand(a, self), _operand(a, other)))


def _quotient(a: Arithmetic, self: Any, other: Any) -> Tensor:
    """A scalar divisor is a product with its reciprocal, as in compiled code."""
    if isinstance(other, Tensor):
        return a.rounded(_operand(a, self) / other)
    return a.rounded(self * a.constant(1.0 / other if other else math.inf))


def _function(name: str) -> Step:
    """One operand: by table for DL16, by the CPU's kernel for fp32."""
    kernel = _KERNELS.get(name) or getattr(torch, name)
    return lambda a, self: unary(name, self) if a.half else kernel(self)


def _gelu(a: Arithmetic, self: Tensor, approximate: str = "none") -> Tensor:
    if not a.half:
        return torch.nn.functional.gelu(self, approximate=approximate)
    return unary("gelufwd_tanh" if approximate == "tanh" else "gelufwd", self)


def _softplus(a: Arithmetic, self: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    if not a.half:
        return torch.nn.functional.softplus(self, beta, threshold)
    return unary("softplus", self, float(beta), float(threshold))


def _clamp(a: Arithmetic, self: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """Both bounds are constants; a missing one is the largest constant."""
    low, high = (-math.inf if min is None else float(min)), (math.inf if max is None else float(max))
    return torch.clamp(self, a.constant(low), a.constant(high))


def _comparison(function: Callable[[Any, Any], Tensor]) -> Step:
    return lambda a, self, other: function(_operand(a, self), _operand(a, other))


# --- reductions and what is made of them
def _sum_all(a: Arithmetic, self: Tensor, dtype: Any = None) -> Tensor:
    return a.sum(self, None, False)


def _sum_dims(a: Arithmetic, self: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    return a.sum(self, dim, keepdim)


def _mean_all(a: Arithmetic, self: Tensor, dtype: Any = None) -> Tensor:
    return a.mean(self, None, False)


def _mean_dims(a: Arithmetic, self: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    return a.mean(self, dim, keepdim)


def _softmax(a: Arithmetic, self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    exponentials = a.unary("exp", a.rounded(self - self.amax(dim, keepdim=True)))
    return a.rounded(exponentials / a.sum(exponentials, [dim], True))


def _log_softmax(a: Arithmetic, self: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    shifted = a.rounded(self - self.amax(dim, keepdim=True))
    total = a.sum(a.unary("exp", shifted), [dim], True)
    return a.rounded(shifted - a.unary("log", total))


def _euclidean_norm(
    a: Arithmetic, self: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    if ord != 2:
        return a.rounded(torch.linalg.vector_norm(self, ord, dim, keepdim))
    return a.unary("sqrt", a.sum(a.rounded(self * self), dim, keepdim))


def _rms_norm(
    a: Arithmetic, input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    epsilon = torch.finfo(torch.float16 if a.half else torch.float32).eps if eps is None else eps
    square = a.mean(a.rounded(input * input), [-1], True)
    root = a.unary("rsqrt", a.rounded(square + a.constant(epsilon)))
    normal = a.rounded(input * root)
    return (normal if weight is None else a.rounded(normal * weight)), root


def _layer_norm(
    a: Arithmetic,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    from sim_backend.compiler.runtime import layer_norm

    if not a.half or len(normalized_shape) != 1:
        parts = torch.native_layer_norm(input, normalized_shape, weight, bias, eps)
        return a.rounded(parts[0]), a.rounded(parts[1]), a.rounded(parts[2])
    numerics = a.profile.numerics
    affine = [t for t in (weight, bias) if t is not None]
    normal = layer_norm(
        input,
        *affine,
        half=True,
        eps=eps,
        form=numerics["layer_norm"],
        policy=a.profile.reduction_accumulation,
        chunk=numerics["reduction_chunk"],
        weighted=weight is not None,
        clamped=not a.profile.has("E-14"),
    )
    centre = a.mean(input, [-1], True)
    variance = a.rounded(a.mean(a.rounded(input * input), [-1], True) - a.rounded(centre * centre))
    return normal, centre, a.unary("rsqrt", a.rounded(variance + a.constant(eps)))


# --- matrix products
def _product(a: Arithmetic, self: Tensor, mat2: Tensor) -> Tensor:
    return a.product(self, mat2)


def _addmm(a: Arithmetic, self: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return a.rounded(_scaled(a, a.product(mat1, mat2), alpha) + _scaled(a, self, beta))


def _baddbmm(a: Arithmetic, self: Tensor, batch1: Tensor, batch2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """As compiled code decomposes it: without the addend where beta is 0."""
    if beta == 0:
        return _scaled(a, a.product(batch1, batch2), alpha)
    return _addmm(a, self, batch1, batch2, beta, alpha)


def _scaled_mm(
    a: Arithmetic,
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:
    from sim_backend.compiler.runtime import scaled_mm

    product = scaled_mm(self, mat2, scale_a, scale_b, half=a.half, **a.profile.product_accumulation)
    return product if bias is None else a.rounded(product + bias)


# --- pow
def _power(a: Arithmetic, self: Tensor, exponent: float) -> Tensor:
    if not a.half or a.profile.exponent_rule(exponent) != "decompose":
        return a.rounded(torch.pow(self, exponent))
    special: dict[float, Callable[[Tensor], Tensor]] = {
        0.0: torch.ones_like,
        1.0: torch.clone,
        -1.0: partial(a.unary, "reciprocal"),
        0.5: partial(a.unary, "sqrt"),
        -0.5: partial(a.unary, "rsqrt"),
    }
    if exponent in special:
        return special[exponent](self)
    if float(exponent).is_integer():
        return _integer_power(a, self, int(exponent))
    return a.unary("exp", a.rounded(a.constant(exponent) * a.unary("log", self)))


def _integer_power(a: Arithmetic, value: Tensor, exponent: int) -> Tensor:
    """Square and multiply; the reciprocal for a negative exponent (facts 3.4)."""
    result, base, rest = None, value, abs(exponent)
    while rest:
        if rest & 1:
            result = base if result is None else a.rounded(result * base)
        rest >>= 1
        base = a.rounded(base * base) if rest else base
    assert result is not None
    return a.unary("reciprocal", result) if exponent < 0 else result


# Through fp32 the alpha of add and sub is a product of its own.
_INTEGER: dict[str, Callable[..., Tensor]] = {
    **{f"aten.add.{kind}": lambda x, y, alpha=1: x + y * alpha for kind in ("Tensor", "Scalar")},
    **{f"aten.sub.{kind}": lambda x, y, alpha=1: x - y * alpha for kind in ("Tensor", "Scalar")},
    **{f"aten.rsub.{kind}": lambda x, y, alpha=1: y - x * alpha for kind in ("Tensor", "Scalar")},
    **{f"aten.mul.{kind}": torch.mul for kind in ("Tensor", "Scalar")},
    "aten.maximum.default": torch.maximum,
    "aten.minimum.default": torch.minimum,
    "aten.max.default": torch.max,
    "aten.min.default": torch.min,
    "aten.amax.default": torch.amax,
    "aten.amin.default": torch.amin,
}
_KERNELS = {"silu": torch.nn.functional.silu, "mish": torch.nn.functional.mish}
_ONE_OPERAND = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "silu", "mish")
_COMPARISONS = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
_STEPS: dict[str, Step] = {
    **{f"aten.add.{kind}": _sum_of_two for kind in ("Tensor", "Scalar")},
    **{f"aten.sub.{kind}": _difference for kind in ("Tensor", "Scalar")},
    **{f"aten.rsub.{kind}": _reversed_difference for kind in ("Tensor", "Scalar")},
    **{f"aten.mul.{kind}": _binary(torch.mul) for kind in ("Tensor", "Scalar")},
    **{f"aten.div.{kind}": _quotient for kind in ("Tensor", "Scalar")},
    **{f"aten.{name}.Scalar": _comparison(function) for name, function in _COMPARISONS.items()},
    **{f"aten.{name}.default": _function(name) for name in _ONE_OPERAND},
    **{f"aten.{name}.default": _clamp for name in ("clamp", "clamp_min", "clamp_max")},
    "aten.gelu.default": _gelu,
    "aten.softplus.default": _softplus,
    "aten.sum.default": _sum_all,
    "aten.sum.dim_IntList": _sum_dims,
    "aten.mean.default": _mean_all,
    "aten.mean.dim": _mean_dims,
    "aten._softmax.default": _softmax,
    "aten._log_softmax.default": _log_softmax,
    "aten.linalg_vector_norm.default": _euclidean_norm,
    "aten._fused_rms_norm.default": _rms_norm,
    "aten.native_layer_norm.default": _layer_norm,
    "aten.mm.default": _product,
    "aten.bmm.default": _product,
    "aten.addmm.default": _addmm,
    "aten.baddbmm.default": _baddbmm,
    "aten._scaled_mm.default": _scaled_mm,
    "aten.pow.Tensor_Scalar": _power,
}
