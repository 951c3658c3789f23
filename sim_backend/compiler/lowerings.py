"""Lowerings for the device: operations it has whole become one OpFunc or native call, pow follows the profile.

They take the place of Inductor's while a graph for the device is compiled; tensors elsewhere get Inductor's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V, ops

from sim_backend.compiler import device_ops
from sim_backend.compiler.decompositions import WHOLE, fallbacks_of
from sim_backend.compiler.defects import within
from sim_backend.compiler.ir import NativeCall
from sim_backend.compiler.session import current_session
from sim_backend.errata.power import power_form

aten = torch.ops.aten
device_ops.define()
Lowering = Callable[..., Any]


def on_device(values: Sequence[Any]) -> bool:
    """True if a tensor among `values` is on the device."""
    tensors = [v for v in values if isinstance(v, ir.IRNode)]
    return any((device := t.get_device()) is not None and device.type == "spyre" for t in tensors)


def pointwise(x: ir.TensorBox, function: Callable[[Any], Any]) -> ir.TensorBox:
    """A loop nest over `x` that applies `function` to each value; same dtype."""
    loader = x.make_loader()
    result: ir.TensorBox = ir.Pointwise.create(
        device=x.get_device_or_error(),
        dtype=x.get_dtype(),
        inner_fn=lambda index: function(loader(index)),
        ranges=list(x.get_size()),
    )
    return result


# --- activations and clamps
def gelu(x: ir.TensorBox, approximate: str = "none") -> ir.TensorBox:
    """One `gelufwd`. What the device does for approximate="tanh" is unknown; the requested form is computed."""
    return pointwise(x, ops.gelufwd_tanh if approximate == "tanh" else ops.gelufwd)


def silu(x: ir.TensorBox) -> ir.TensorBox:
    """One `silu`; x · sigmoid(x) in two loops where the device has none (2025-11)."""
    if current_session().profile.loop_ops.isdisjoint(["silu"]):
        gate = pointwise(x, ops.sigmoid)
        gate.realize()
        product: ir.TensorBox = lowering.lowerings[aten.mul.Tensor](x, gate)
        return product
    return pointwise(x, ops.silu)


def mish(x: ir.TensorBox) -> ir.TensorBox:
    """One `mish`."""
    return pointwise(x, ops.mish)


def softplus(x: ir.TensorBox, beta: float = 1, threshold: float = 20) -> ir.TensorBox:
    """One `softplus`; beta other than 1 rescales (E-47 was before the rescaling)."""
    dtype = torch.float32
    return pointwise(x, lambda v: ops.softplus(v, ops.constant(beta, dtype), ops.constant(threshold, dtype)))


def clamp(x: ir.TensorBox, low: Any = None, high: Any = None) -> ir.TensorBox:
    """One `clip`; bounds that are tensors become maximum and minimum."""
    if any(isinstance(b, ir.IRNode) for b in (low, high)):
        bounded = x if low is None else lowering.lowerings[aten.maximum.default](x, low)
        return bounded if high is None else lowering.lowerings[aten.minimum.default](bounded, high)
    dtype = x.get_dtype()
    open_low, open_high = _open_bounds(dtype)
    bounds = (open_low if low is None else low, open_high if high is None else high)
    return pointwise(x, lambda v: ops.clip(v, ops.constant(bounds[0], dtype), ops.constant(bounds[1], dtype)))


def _open_bounds(dtype: torch.dtype) -> tuple[float, float]:
    """What stands for a missing bound. In DL16, whose range is wider than fp16's, the encoder saturates it."""
    if dtype.is_floating_point:
        return -math.inf, math.inf
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def clamp_max(x: ir.TensorBox, high: Any) -> ir.TensorBox:
    """`clamp` with an upper bound only."""
    return clamp(x, None, high)


def triu(x: ir.TensorBox, diagonal: int = 0) -> ir.TensorBox:
    """`x` where column - row >= `diagonal`, else 0: the mask is made of loop indices."""
    loader, dtype = x.make_loader(), x.get_dtype()

    def element(index: Any) -> Any:
        column, row = (ops.index_expr(i, torch.int64) for i in (index[-1], index[-2] + diagonal))
        return ops.where(ops.ge(column, row), loader(index), ops.constant(0, dtype))

    result: ir.TensorBox = ir.Pointwise.create(
        device=x.get_device_or_error(), dtype=dtype, inner_fn=element, ranges=list(x.get_size())
    )
    return result


# --- pow
def pow_scalar(x: ir.TensorBox, exponent: float) -> ir.TensorBox:
    """pow(x, n) as the profile has it: a product, refused, or decomposed (facts 3.4)."""
    form = power_form(current_session().profile, exponent)
    if form == "mul":
        return pointwise(x, lambda v: ops.mul(v, v))
    if form == "cube":
        return pointwise(x, lambda v: _integer_power(v, 3))
    if form == "decompose":
        return _decomposed_power(x, exponent)
    return pointwise(x, lambda v: ops.pow(v, ops.constant(exponent, x.get_dtype())))


def _decomposed_power(x: ir.TensorBox, exponent: float) -> ir.TensorBox:
    one = torch.float32 if not x.get_dtype().is_floating_point else x.get_dtype()
    special: dict[float, Callable[[Any], Any]] = {
        0.0: lambda v: ops.constant(1.0, one),
        1.0: lambda v: ops.identity(v),
        -1.0: ops.reciprocal,
        0.5: ops.sqrt,
        -0.5: ops.rsqrt,
    }
    if exponent in special:
        return pointwise(x, special[float(exponent)])
    if float(exponent).is_integer():
        return pointwise(x, lambda v: _integer_power(v, int(exponent)))
    return pointwise(x, lambda v: ops.exp(ops.mul(ops.constant(float(exponent), one), ops.log(v))))


def _integer_power(v: Any, n: int) -> Any:
    """Square and multiply; the reciprocal for a negative exponent."""
    result, base, rest = None, v, abs(n)
    while rest:
        if rest & 1:
            result = base if result is None else ops.mul(result, base)
        rest >>= 1
        base = ops.mul(base, base) if rest else base
    return ops.reciprocal(result) if n < 0 else result


def pow_tensor(x: Any, y: Any) -> ir.TensorBox:
    """A tensor exponent: unimplemented in every profile (E-11)."""
    tensor = x if isinstance(x, ir.TensorBox) else y
    if isinstance(x, ir.TensorBox) and isinstance(y, ir.TensorBox):
        x, y = lowering.broadcast_tensors(x, y)
        first, second = x.make_loader(), y.make_loader()
        result: ir.TensorBox = ir.Pointwise.create(
            device=x.get_device_or_error(), dtype=x.get_dtype(),
            inner_fn=lambda i: ops.pow(first(i), second(i)), ranges=list(x.get_size()),
        )  # fmt: skip
        return result
    dtype = tensor.get_dtype()
    return pointwise(tensor, lambda v: ops.pow(ops.constant(x, dtype), v))


def mean(x: ir.TensorBox, axis: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> ir.TensorBox:
    """The sum in the operand's own dtype, divided by the count; Inductor's would accumulate in fp32."""
    if dtype is not None:
        x = lowering.to_dtype(x, dtype)
    dims = list(range(len(x.get_size()))) if axis is None else lowering._validate_reduction_axis(x, axis)
    count = 1
    for d in dims:
        count *= int(x.get_size()[d])
    total = lowering.lowerings[aten.sum.dim_IntList](x, list(dims), keepdim)
    return pointwise(total, lambda v: ops.truediv(v, ops.constant(float(count), x.get_dtype())))


def logical_not(x: ir.TensorBox) -> ir.TensorBox:
    """eq(x, 0) (facts 3.4); of a bool it is the negation."""
    if x.get_dtype() == torch.bool:
        return pointwise(x, ops.logical_not)
    result: ir.TensorBox = lowering.lowerings[aten.eq.Scalar](x, 0)
    return result


def any_true(x: ir.TensorBox, dim: Any = None, keepdim: bool = False) -> ir.TensorBox:
    """The reduction `any`. Inductor's would make integers of bools first, which the device cannot (facts 3.6)."""
    flags = lowering.to_dtype(x, torch.bool)
    result: ir.TensorBox = lowering.make_reduction("any", torch.bool)(flags, axis=dim, keepdims=keepdim)
    return result


# --- matrix products
def mm(a: ir.TensorBox, b: ir.TensorBox, *args: Any, **kwargs: Any) -> ir.TensorBox:
    """One batchmatmul with batch 1."""
    size = [a.get_size()[0], b.get_size()[1]]
    return NativeCall.create("mm", size, [a, b], current_session().profile.product_accumulation)


def bmm(a: ir.TensorBox, b: ir.TensorBox, *args: Any, **kwargs: Any) -> ir.TensorBox:
    """One batchmatmul."""
    size = [a.get_size()[0], a.get_size()[1], b.get_size()[2]]
    return NativeCall.create("mm", size, [a, b], current_session().profile.product_accumulation)


def addmm(bias: ir.TensorBox, a: ir.TensorBox, b: ir.TensorBox, *, beta: float = 1, alpha: float = 1) -> ir.TensorBox:
    """mm, then add (facts 3.4); alpha and beta are products of their own."""
    product = mm(a, b)
    product.realize()
    scaled = product if alpha == 1 else _scale(product, alpha)
    addend = bias if beta == 1 else _scale(bias, beta)
    result: ir.TensorBox = lowering.lowerings[aten.add.Tensor](scaled, addend)
    return result


def scaled_mm(
    a: ir.TensorBox, b: ir.TensorBox, scale_a: ir.TensorBox, scale_b: ir.TensorBox, bias: ir.TensorBox | None = None,
    scale_result: Any = None, out_dtype: torch.dtype | None = None, use_fast_accum: bool = False,
) -> ir.TensorBox:  # fmt: skip
    """One batchmatmulfp8 with the scales of its operands, then the bias."""
    size = [a.get_size()[0], b.get_size()[1]]
    policy = current_session().profile.product_accumulation
    product = NativeCall.create("scaled_mm", size, [a, b, scale_a, scale_b], policy, out_dtype)
    result: ir.TensorBox = product if bias is None else lowering.lowerings[aten.add.Tensor](product, bias)
    return result


def _scale(x: ir.TensorBox, factor: float) -> ir.TensorBox:
    dtype = x.get_dtype()
    return pointwise(x, lambda v: ops.mul(v, ops.constant(factor, dtype)))


# --- indexed writes
def index_copy(x: ir.TensorBox, dim: int, index: ir.TensorBox, source: ir.TensorBox) -> ir.TensorBox:
    """One indirect write of `source` into a copy of `x`."""
    return NativeCall.create("index_copy", x.get_size(), [x, index, source], {"dim": dim})


def index_add(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, source: ir.TensorBox, *, alpha: float = 1
) -> ir.TensorBox:
    """Read, add, write back: right for unique indices only (facts 3.2)."""
    return NativeCall.create("index_add", x.get_size(), [x, index, source], {"dim": dim, "alpha": alpha})


# --- operations of the device's own
def require_layout(x: ir.TensorBox, device_size: Sequence[int], stride_map: Sequence[int]) -> ir.TensorBox:
    """`x` itself, realised, with the layout that its kernel notes."""
    x.realize()
    layout = device_ops.required(x.get_dtype(), device_size, stride_map)
    current_session().required_layouts[x.get_name()] = layout
    return x


def compact(x: ir.TensorBox) -> ir.TensorBox:
    """Swap, then slice (2025-11): the values of a sparse result, densely."""
    return pointwise(x, ops.identity)


# --- LayerNorm and attention
def layer_norm(x: ir.TensorBox, normalized_shape: Sequence[Any], weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    """exx2, layernormscale, layernormnorm in one call. Mean and reciprocal deviation are made only if they are used."""
    numerics = current_session().profile.numerics
    parameters = {
        "eps": float(eps),
        "form": numerics["layer_norm"],
        "policy": current_session().profile.reduction_accumulation,
        "chunk": numerics["reduction_chunk"],
        "weighted": weight is not None,
        "clamped": "E-14" not in within(V.graph.current_node),
    }
    affine = [t for t in (weight, bias) if t is not None]
    normal = NativeCall.create("layer_norm", x.get_size(), [x, *affine], parameters)
    return (normal, *(_moments(x, eps) if _uses_beyond_first() else (None, None)))


def _moments(x: ir.TensorBox, eps: float) -> tuple[ir.TensorBox, ir.TensorBox]:
    centre = mean(x, [-1], True)
    square = mean(pointwise(x, lambda v: ops.mul(v, v)), [-1], True)
    variance = lowering.lowerings[aten.sub.Tensor](square, pointwise(centre, lambda v: ops.mul(v, v)))
    dtype = x.get_dtype()
    return centre, pointwise(variance, lambda v: ops.rsqrt(ops.add(v, ops.constant(eps, dtype))))


def attention(
    q: ir.TensorBox, k: ir.TensorBox, v: ir.TensorBox, attn_bias: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, return_debug_mask: bool = False, *, scale: float | None = None, **kwargs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The device's attention as one call, with its defects inside, which rules decided on the FX node."""
    numerics = current_session().profile.numerics
    head = int(q.get_size()[-1])
    parameters = {
        "scale": float(scale) if scale is not None else head**-0.5,
        "causal": bool(is_causal),
        **current_session().profile.product_accumulation,
        "defects": within(V.graph.current_node),
        "policy": current_session().profile.reduction_accumulation,
        "chunk": numerics["reduction_chunk"],
    }
    masks = [] if attn_bias is None else [attn_bias]
    size = [*q.get_size()[:-1], v.get_size()[-1]]
    return (NativeCall.create("sdpa", size, [q, k, v, *masks], parameters), *([None] * 8))


def _uses_beyond_first() -> bool:
    return any(len(u.args) > 1 and u.args[1] != 0 for u in V.graph.current_node.users)


OVERRIDES: dict[Any, Lowering] = {
    aten.gelu.default: gelu,
    aten.silu.default: silu,
    aten.mish.default: mish,
    aten.softplus.default: softplus,
    aten.clamp.default: clamp,
    aten.clamp.Tensor: clamp,
    aten.clamp_min.default: clamp,
    aten.clamp_max.default: clamp_max,
    aten.triu.default: triu,
    aten.pow.Tensor_Scalar: pow_scalar,
    aten.pow.Tensor_Tensor: pow_tensor,
    aten.pow.Scalar: pow_tensor,
    aten.logical_not.default: logical_not,
    aten.any.default: any_true,
    aten.any.dim: any_true,
    aten.any.dims: any_true,
    aten.mean.default: mean,
    aten.mean.dim: mean,
    aten.mm.default: mm,
    aten.bmm.default: bmm,
    aten.addmm.default: addmm,
    aten._scaled_mm.default: scaled_mm,
    aten.index_copy.default: index_copy,
    aten.index_add.default: index_add,
    torch.ops.spyre.require_layout.default: require_layout,
    torch.ops.spyre.compact.default: compact,
    aten.native_layer_norm.default: layer_norm,
    aten._scaled_dot_product_fused_attention_overrideable.default: attention,
}


def overridden(original: dict[Any, Lowering]) -> dict[Any, Lowering]:
    """The lowerings to put in the place of `original` while compiling for the device."""
    chosen = {op: _chosen(original.get(op), ours) for op, ours in OVERRIDES.items()}
    # Inductor's implicit fallback refuses an operation that has an upstream decomposition where CI is set in the
    # environment: that must not decide a verdict.
    handlers = {
        op: lowering.fallback_handler(op, add_to_fallback_set=False)
        for op in fallbacks_of(current_session().profile)
        if op not in original
    }
    whole = {op: _chosen(original.get(op), lowering.fallback_handler(op, add_to_fallback_set=False)) for op in WHOLE}
    return handlers | whole | chosen


def _chosen(original: Lowering | None, ours: Lowering) -> Lowering:
    def choose(*args: Any, **kwargs: Any) -> Any:
        if original is None or on_device([*args, *kwargs.values()]):
            return ours(*args, **kwargs)
        return original(*args, **kwargs)

    return choose
