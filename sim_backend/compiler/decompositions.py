"""Which decompositions run before lowering: none for what the device has whole, none for a fallback (facts 3.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import accumulate
from typing import Any

import torch

from sim_backend.profiles import Profile, split_op

aten = torch.ops.aten

KEPT = (
    aten.gelu.default,
    aten.silu.default,
    aten.softplus.default,
    aten.mish.default,
    aten.native_layer_norm.default,
    aten.pow.Tensor_Scalar,
    aten.pow.Tensor_Tensor,
    aten.pow.Scalar,
    aten.triu.default,
    aten.index_copy.default,
    aten.index_add.default,
    aten.clamp.default,
    aten.clamp.Tensor,
    aten.clamp_min.default,
    aten.clamp_max.default,
    aten.mm.default,
    aten.bmm.default,
    aten.addmm.default,
    aten._scaled_dot_product_fused_attention_overrideable.default,
)


# What the device has whole and Inductor would lower to loops or to a call of its own: an operation of its own in the
# graph, as far as the op table has it at all.
WHOLE = (
    aten.topk.default,
    aten._scaled_mm.default,
    aten.native_dropout.default,
    aten.avg_pool2d.default,
    aten.masked_scatter.default,
    aten.uniform.default,
    aten.normal_functional.default,
)


class DecompositionTable(dict[Any, Callable[..., Any]]):
    """A table that Inductor's cache key can hold: it is hashed as the digest of the profile it was made for."""

    digest: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (self.digest,)


def decomposition_table(profile: Profile) -> DecompositionTable:
    """Inductor's table without what the profile keeps whole, and with rms_norm in the device's form."""
    from torch._inductor.decomposition import select_decomp_table

    table = DecompositionTable(select_decomp_table())
    table.digest = profile.digest
    for op in (*KEPT, *WHOLE):
        table.pop(op, None)
    for op in fallbacks_of(profile):
        table.pop(op, None)
    table.update({op: pieces for op, pieces in PIECES.items() if not _is_fallback(profile, op)})
    table[aten._fused_rms_norm.default] = fused_rms_norm
    table[aten.linalg_vector_norm.default] = partial(vector_norm, table.get(aten.linalg_vector_norm.default))
    if not profile.ideal:
        table[aten.max.dim] = partial(extreme, torch.amax, torch.argmax)
        table[aten.min.dim] = partial(extreme, torch.amin, torch.argmin)
    return table


def extreme(
    values: Callable[..., torch.Tensor],
    indices: Callable[..., torch.Tensor],
    x: torch.Tensor,
    dim: int,
    keepdim: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """max.dim and min.dim: the values by a reduction, the indices by a search of their own (facts 3.2)."""
    return values(x, dim, keepdim), indices(x, dim, keepdim)


@cache
def fallbacks_of(profile: Profile) -> tuple[torch._ops.OpOverload, ...]:
    """The CPU fallbacks of the profile that upstream would decompose: the device's compiler keeps them whole."""
    from torch._inductor.decomposition import select_decomp_table

    overloads = (op for op in select_decomp_table() if isinstance(op, torch._ops.OpOverload))
    return tuple(op for op in overloads if _is_fallback(profile, op))


def _is_fallback(profile: Profile, op: torch._ops.OpOverload) -> bool:
    return split_op(str(op))[0].startswith("aten.") and profile.cell(str(op), "compiled") == "F"


def split(x: torch.Tensor, size: int, dim: int = 0) -> list[torch.Tensor]:
    """Slices, so that each piece is an operation of its own with its own offset (E-35)."""
    return split_with_sizes(x, [min(size, x.shape[dim] - at) for at in range(0, x.shape[dim], size)], dim)


def split_with_sizes(x: torch.Tensor, sizes: list[int], dim: int = 0) -> list[torch.Tensor]:
    """Slices, as `split`."""
    ends = list(accumulate(sizes))
    return [aten.slice.Tensor(x, dim, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def unbind(x: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    """Selects, as `split`."""
    return [aten.select.int(x, dim, i) for i in range(x.shape[dim])]


PIECES: dict[Any, Callable[..., Any]] = {
    aten.split.Tensor: split,
    aten.split_with_sizes.default: split_with_sizes,
    aten.unbind.int: unbind,
}


def fused_rms_norm(
    x: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None, eps: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """x · rsqrt(mean(x·x) + eps) · w over the last dimension, and the reciprocal root (facts 3.4)."""
    epsilon = torch.finfo(x.dtype).eps if eps is None else eps
    root = torch.rsqrt(torch.mean(x * x, -1, keepdim=True) + epsilon)
    normal = x * root
    return (normal if weight is None else normal * weight), root


def vector_norm(
    upstream: Callable[..., torch.Tensor] | None,
    x: torch.Tensor,
    order: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The Euclidean norm as sqrt(sum(x·x)), without pow; other orders as upstream."""
    if order != 2 or dtype is not None:
        return NotImplemented if upstream is None else upstream(x, order, dim, keepdim, dtype=dtype)
    dims = list(range(x.dim())) if dim is None else dim
    return torch.sqrt(torch.sum(x * x, dims, keepdim=keepdim))
