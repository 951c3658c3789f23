"""From the operation the dispatcher shows to the one the user called.

The device sees `aten.pow.Tensor_Scalar_out`, `aten.relu_.default` or `aten.arange.start_out`; the op table, messages
and counts speak of `aten.pow.Tensor_Scalar`, `aten.relu.default` and `aten.arange.default`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

# Forms that have no functional sibling of the same arguments, or one the user never writes.
_KNOWN = {
    "aten.mean.out": "aten.mean.dim",
    "aten.sum.IntList_out": "aten.sum.dim_IntList",
    "aten.div.out_mode": "aten.div.Tensor_mode",
    "aten.any.all_out": "aten.any.default",
    "aten.all.all_out": "aten.all.default",
    "aten.arange.start_out": "aten.arange.default",
    "aten.zero_.default": "aten.zero.default",
    "aten.fill_.Scalar": "aten.fill.Scalar",
    "aten.sort.values_stable": "aten.sort.default",
    "aten.normal_.default": "aten.normal.default",
    "aten._scaled_dot_product_fused_attention_overrideable.default": "aten.scaled_dot_product_attention.default",
}


@cache
def user_op(op: OpOverload) -> str:
    """ "aten.pow.Tensor_Scalar" for `aten.pow.Tensor_Scalar_out`; `str(op)` for a functional operation."""
    name = str(op)
    if name in _KNOWN:
        return _KNOWN[name]
    if not op._schema.is_mutable:
        return name
    packet = _functional_packet(op)
    overload = None if packet is None else _same_arguments(op, packet)
    return str(getattr(packet, overload)) if packet is not None and overload is not None else name


def aten_name(user_name: str) -> str:
    """ "aten::pow.Tensor_Scalar" for "aten.pow.Tensor_Scalar"; the overload "default" is not spelled."""
    namespace, _, rest = user_name.partition(".")
    return f"{namespace}::{rest.removesuffix('.default')}"


def _functional_packet(op: OpOverload) -> OpOverloadPacket | None:
    name = op._schema.name.partition("::")[2]
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return getattr(getattr(torch.ops, op.namespace), plain, None)


def _same_arguments(op: OpOverload, packet: OpOverloadPacket) -> str | None:
    wanted = _signature(op)
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if not candidate._schema.is_mutable and _signature(candidate)[: len(wanted)] == wanted:
            return str(overload)
    return None


def _signature(op: OpOverload) -> list[Any]:
    return [str(a.type) for a in op._schema.arguments if not a.is_out and not a.kwarg_only]
