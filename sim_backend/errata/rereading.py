"""Calls computed again on operands that were read in another way, and the operations for which defects do that."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils._pytree import tree_map_only

from sim_backend.errata.rule import Call, Operand

BINARY = frozenset(f"aten.{name}" for name in ("add", "sub", "mul", "div", "maximum", "minimum"))
UNARY = frozenset(
    f"aten.{name}"
    for name in ("abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "relu", "sigmoid", "tanh", "neg", "silu", "gelu")
)
ELEMENTWISE = BINARY | UNARY
COPIES = frozenset(["aten.clone", "aten.contiguous"])
READERS = ELEMENTWISE | {
    f"aten.{name}" for name in ("sum", "mean", "amax", "mm", "bmm", "addmm", "where", "clamp", "pow")
}
_REAL = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def recomputed(call: Call, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The call computed again on `inputs` (fp32 for DL16), which stand for its operands in order."""
    _, packet, overload = call.op.split(".")
    values = iter(inputs)
    args, kwargs = tree_map_only(Operand, lambda _: next(values), (call.args, dict(call.kwargs)))
    kwargs = {k: _REAL.get(v, v) if isinstance(v, torch.dtype) else v for k, v in kwargs.items() if k != "out"}
    result: torch.Tensor = getattr(getattr(torch.ops.aten, packet), overload)(*args, **kwargs)
    return result


def default_reading(t: torch.Tensor) -> torch.Tensor:
    """The buffer of `t` from its offset on, read with the default layout of its shape; wraps at the storage's end."""
    flat = torch.as_strided(t, (t.untyped_storage().nbytes() // t.itemsize,), (1,), 0)
    positions = (torch.arange(t.numel()) + t.storage_offset()) % flat.numel()
    return flat[positions].reshape(t.shape)
