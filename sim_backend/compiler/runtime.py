"""What generated kernels call, as `rt`. Values are CPU tensors: DL16 as fp32 on the DL16 grid, others as they are.

A buffer is a flat tensor in storage order; kernels view it with `as_strided`. `half` says that a result is DL16 and
is rounded once. Codes are read at a kernel's entry and written at its end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from sim_backend.compiler import decisions
from sim_backend.compiler.weights import cached_weight
from sim_backend.device import ext
from sim_backend.errata import attention, borders
from sim_backend.errata.rule import Call
from sim_backend.errata.table import function_named
from sim_backend.numerics import decode, decode_into, encode_into, fused, round_dl16_
from sim_backend.numerics.pairs import add, mul, sub
from sim_backend.numerics.products import product_by
from sim_backend.numerics.sums import chunked_sum, exact_sum, serial_sum
from sim_backend.numerics.unary import unary

__all__ = ["add", "chunked_sum", "exact_sum", "mul", "serial_sum", "sub", "unary"]

HALF = (torch.float16, torch.bfloat16)
IN_FP32 = ("fp32", 0)  # the policy of products that says: one rounding at the end
CONSTANT_LIMIT = (1 + 511 / 512) * 2.0**31  # code 0x7DFF, where constants saturate
ROW_GAP = 16  # elements: one cache line
AUDITS: list[dict[str, Any]] = []  # of the modules loaded in this process, newest last


def register_audit(record: dict[str, Any]) -> None:
    """Called when a generated module is loaded, so a cache hit replays its audit and its warnings."""
    AUDITS.append(record)
    decisions.log(record)
    for operation in record.get("unimplemented", ()):
        warnings.warn(f"Compiling unimplemented {operation} to runtime exception", UserWarning, stacklevel=2)


# --- memory
def read(t: torch.Tensor, width: int = 0, start: bool = False) -> torch.Tensor:
    """The flat values of a device tensor's buffer, DL16 decoded to fp32.

    `width` > 0 marks a graph input with rows of that many elements: if it carries the broadcast tag (E-18), it is
    read with the default layout. `start`: from the start of its storage, whatever the view's offset (E-31).
    """
    t = _from_start(t) if start and t.storage_offset() else t
    if t.device.type != "spyre":
        return _flat(t.float() if t.dtype in HALF else t)
    if t.dtype not in HALF:
        return _flat(ext.cpu_alias(t))
    if type(t) is torch.nn.Parameter:
        return cached_weight(t, _decoded)
    flat = _decoded(t)
    return borders.default_reading(flat, width) if width and ext.layout_tag(t) == borders.BROADCAST else flat


def pick(t: torch.Tensor, where: torch.Tensor, width: int = 0, start: bool = False) -> torch.Tensor:
    """`read(t, width, start)[where]`. Of a weight only these elements are decoded: no copy of a whole table is kept."""
    if type(t) is not torch.nn.Parameter or t.dtype not in HALF:
        return read(t, width, start)[where]
    return decode(_codes(_from_start(t) if start and t.storage_offset() else t)[where])


def matrix(
    t: torch.Tensor, width: int, size: Sequence[int], stride: Sequence[int], offset: int, start: bool = False
) -> torch.Tensor:
    """A transposed view of a graph input's values; of a weight, a copy by rows is kept, which multiplies faster."""
    t = _from_start(t) if start and t.storage_offset() else t
    if type(t) is not torch.nn.Parameter or t.dtype not in HALF:
        return torch.as_strided(read(t, width), size, stride, offset)
    return cached_weight(t, lambda w: _by_rows(torch.as_strided(_codes(w), size, stride, offset)), (size, stride))


def _by_rows(codes: torch.Tensor) -> torch.Tensor:
    """Decoded with its rows one after the other, a gap after each: rows of a power of two would share cache lines."""
    *outer, width = codes.shape
    copy = torch.empty(*outer, width + ROW_GAP)[..., :width]
    _decode_matrices(codes, copy)
    return copy


def _decode_matrices(codes: torch.Tensor, out: torch.Tensor) -> None:
    """One matrix after the other: what is decoded beside its place is never larger than one of them."""
    if codes.dim() <= 2:
        decode_into(codes, out)
        return
    for one, place in zip(codes, out, strict=True):
        _decode_matrices(one, place)


def write(t: torch.Tensor, flat: torch.Tensor, tag: int = 0, start: bool = False) -> None:
    """Store `flat` into the device tensor `t` (same storage order), DL16 encoded; int64 keeps 32 bits."""
    t = _from_start(t) if start and t.storage_offset() else t
    target = _flat(ext.cpu_alias(t))
    if t.dtype in HALF:
        encode_into(flat.contiguous(), target)
    elif t.dtype == torch.int64:
        target.copy_(flat.to(torch.int32))
    else:
        target.copy_(flat)
    if tag:
        ext.set_layout_tag(t, tag)


def _from_start(t: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(t.detach(), t.shape, t.stride(), 0)


def _decoded(t: torch.Tensor) -> torch.Tensor:
    return decode(_codes(t))


def _codes(t: torch.Tensor) -> torch.Tensor:
    return _flat(ext.cpu_alias(t))


def _flat(alias: torch.Tensor) -> torch.Tensor:
    """Everything from the first to the last element of `alias`, in storage order."""
    extent = 1 + sum((n - 1) * s for n, s in zip(alias.shape, alias.stride(), strict=True)) if alias.numel() else 0
    return torch.as_strided(alias, (extent,), (1,), alias.storage_offset())


def new(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised flat buffer; DL16 is held as fp32."""
    return torch.empty(elements, dtype=torch.float32 if dtype in HALF else dtype)


def flat(value: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """`value` spread over `shape` as a flat contiguous buffer of `dtype`."""
    held = torch.float32 if dtype in HALF else dtype
    if value.dtype == held and value.shape == shape and value.is_contiguous():
        return value.view(-1)
    return value.to(held).expand(shape).reshape(-1).contiguous()  # a spread constant would stay one element


def store(buffer: torch.Tensor, shape: Sequence[int], stride: Sequence[int], offset: int, value: torch.Tensor) -> None:
    """Write `value` into the strided region of a flat buffer."""
    torch.as_strided(buffer, shape, stride, offset).copy_(value)


def launch(bytes_moved: int, flop: int) -> None:
    """Let simulated time pass for one launch of a bundle (facts 7.5)."""
    ext.queue_bundle(float(bytes_moved), float(flop))


# --- loop-level values
def r(value: torch.Tensor) -> torch.Tensor:
    """A fresh fp32 result rounded to DL16, in place where its memory is dense."""
    if value.dtype != torch.float32:
        value = value.to(torch.float32)
    return round_dl16_(value if value.is_contiguous() else value.contiguous())


def iota(n: int, dim: int, dims: int) -> torch.Tensor:
    """0..n-1 along dimension `dim` of `dims`."""
    return torch.arange(n).view([n if d == dim else 1 for d in range(dims)])


def wrap_index(index: torch.Tensor, size: int) -> torch.Tensor:
    """Python's negative indices made positive."""
    return torch.where(index < 0, index + size, index)


# --- native operations
def mm(a: torch.Tensor, b: torch.Tensor, *, half: bool, products: tuple[str, int] = IN_FP32) -> torch.Tensor:
    """a @ b, 2-D or batched: of DL16 by the policy `products`, by default in fp32 with one rounding at the end."""
    return product_by(*products)(a, b) if half else torch.matmul(a, b)


def scaled_mm(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, *, half: bool,
    products: tuple[str, int] = IN_FP32,
) -> torch.Tensor:  # fmt: skip
    """fp8 a @ b times their scales (one value, or one per row and per column): by `products`, the scales at the end."""
    product = torch.matmul if not half or products == IN_FP32 else product_by(*products)
    scaled = product(a.float(), b.float()) * (scale_a * scale_b)
    return round_dl16_(scaled) if half else scaled


def index_copy(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, *, half: bool, dim: int) -> torch.Tensor:
    """`x` with the slices of `source` along `dim` at the places of `index`."""
    return x.index_copy(dim, index.to(torch.int64), source)


def index_add(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, *, half: bool, dim: int, alpha: float
) -> torch.Tensor:
    """Read, add, write back: of equal indices the last one counts (facts 3.2)."""
    places = index.to(torch.int64)
    added = x.index_select(dim, places) + source * alpha
    return x.index_copy(dim, places, r(added) if half else added)


def layer_norm(
    x: torch.Tensor,
    *affine: torch.Tensor,
    half: bool,
    eps: float,
    form: str,
    policy: str,
    chunk: int,
    weighted: bool,
    clamped: bool,
) -> torch.Tensor:
    """LayerNorm over the last dimension. `affine` holds weight then bias, as far as given.

    `exx2` is the device's form, three operations that round their results once each (facts 3.3, 3.4): exx2 gives mean
    and E[x²] in one pass, layernormscale 1/√(E[x²] − mean² + eps), layernormnorm the rest. Rows of nearly one value can
    have a negative variance then, unless `clamped` (E-14). `two_pass` is the CPU's.
    """
    weight = affine[0] if weighted else None
    bias = affine[-1] if len(affine) > int(weighted) else None
    if form == "two_pass" or not half:
        result = torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
        return round_dl16_(result) if half else result
    return fused.layer_norm(x, weight, bias, eps, policy, chunk, clamped)


def sdpa(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *mask: torch.Tensor, half: bool, scale: float, causal: bool,
    defects: Mapping[str, Any], policy: str, chunk: int, products: tuple[str, int] = IN_FP32,
) -> torch.Tensor:  # fmt: skip
    """softmax(q·√s (k·√s)ᵀ + mask) v for [B, H, L, D] operands (facts 3.4).

    `defects` are those inside the operation: erratum -> parameters (errata.attention).
    """
    q, k, v = attention.spoil_operands((q, k, v), defects)
    rounded: Callable[[torch.Tensor], torch.Tensor] = r if half else _identity
    plus, times = (add, mul) if half else (torch.add, torch.mul)
    groups = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(groups, 1) if groups > 1 else t for t in (k, v))
    root = torch.tensor(math.sqrt(scale), dtype=torch.float32)
    product = product_by(*products) if half else torch.matmul
    scores = product(times(q, root), times(k, root).transpose(-1, -2))
    for bias in _masks(mask, causal, scores, CONSTANT_LIMIT if half else math.inf):
        scores = plus(scores, bias)
    scores, v = attention.with_tail(scores, v, defects)
    weights = fused.softmax(scores, policy, chunk) if half else torch.softmax(scores, -1)
    if attention.spoils_probabilities(scores, defects):
        weights = attention.spoil_probabilities(weights, rounded(scores - scores.amax(-1, keepdim=True)), defects)
    return product(weights, v)


def _identity(value: torch.Tensor) -> torch.Tensor:
    return value


def _masks(mask: Sequence[torch.Tensor], causal: bool, scores: torch.Tensor, infinity: float) -> list[torch.Tensor]:
    """Additive masks; -inf is a constant of the compiler, which saturates."""
    masks = [torch.where(m, 0.0, -infinity) if m.dtype == torch.bool else m for m in mask]
    if causal:
        rows, columns = scores.shape[-2:]
        masks.append(torch.where(torch.ones(rows, columns, dtype=torch.bool).tril(), 0.0, -infinity))
    return masks


def wrong(
    result: torch.Tensor, *inputs: torch.Tensor, half: bool, function: str, call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """`result` as the defect `function` leaves it (errata.table), on the DL16 grid again."""
    values = function_named(function)(result, inputs, call, parameters)
    return r(values) if half else values


# --- outside the device
def unimplemented(kernel: str, operation: str) -> None:
    """What an operation compiled "to runtime exception" does when it is called (facts 3.7). Raises RuntimeError."""
    raise RuntimeError(f"Invoked {kernel} which contains unimplemented operation {operation}")


def missing(operation: Any) -> Callable[..., Any]:
    """An operation outside every bundle that was compiled to an exception."""
    name = str(operation).split(".")[1]
    return lambda *args, **kwargs: unimplemented(f"sdsc_fused_{name}_0", name)


def fallback(operation: Any) -> Callable[..., Any]:
    """`operation` on the CPU, counted, with a FallbackWarning."""
    from sim_backend.device.fallback import run_on_cpu
    from sim_backend.device.naming import user_op

    return lambda *args, **kwargs: run_on_cpu(user_op(operation), operation, args, kwargs)


def compute(operation: Any) -> Callable[..., Any]:
    """`operation` on the ideal device, which has every operation."""
    from sim_backend.device.compute import compute as on_device

    return lambda *args, **kwargs: on_device(operation, args, kwargs)
