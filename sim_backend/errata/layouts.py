"""Buffers read with a wrong layout or offset: E-03 (RMSNorm of heads), E-04 (heads), E-06 (cat), E-07 (one token)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.rule import Call, Operand, Rule, Wrong
from sim_backend.profiles import Profile

HEADS = 4  # dimensions of [B, H, S, D]
ATTENTION = "aten._scaled_dot_product_fused_attention_overrideable"
SWAPPED_HEADS = [0, 2, 1, 3]


def misread(value: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """A dense buffer of `value`'s shape and `stride`, read with the default strides: the permutation is ignored."""
    order = sorted(range(value.dim()), key=lambda d: -stride[d])
    return value.permute(order).reshape(value.shape)


def misread_result(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """The rows of the right result in the order of the first operand's memory (E-03).

    A norm over the last dimension commutes with a permutation of the rows, so misreading its result is the same as
    misreading its operand.
    """
    return misread(result, call.operands[0].stride)


def misread_heads(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """The memory of [B, S, H, D] taken for [B, H, S, D] (E-04)."""
    return inputs[0].reshape(result.shape)


def misread_weight(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """The product with the weight's memory misread, the deviation brought to the size that was reported (E-07)."""
    row, weight = inputs[-2:]
    deviation = row @ misread(weight, call.operands[-1].stride) - row @ weight
    largest = deviation.abs().max().clamp_min(1e-9)
    return result + deviation * (float(parameters["max_error"]) / largest)


def _heads(operand: Operand) -> bool:
    """True for [B, H, S, D] that lies in memory as something else; a dimension of 1 changes nothing."""
    return len(operand.shape) == HEADS and not operand.is_contiguous and operand.stride[-1] == 1


def _normalised_heads(profile: Profile, call: Call) -> str | None:
    """x · rsqrt(...) of transposed heads in a graph that clones the result, or in an eager call."""
    if len(call.operands) != 2 or not _heads(call.operands[0]):
        return None
    x, root = call.operands
    is_norm = root.shape == (*x.shape[:-1], 1) and (call.form == "eager" or root.made_by[:1] == ("aten.rsqrt",))
    if not is_norm or (call.form == "compiled" and "aten.clone" not in call.read_by):
        return None
    return f"RMSNorm of {list(x.shape)} with strides {list(x.stride)}"


def _norm_of_heads(profile: Profile, call: Call) -> str | None:
    """The whole RMSNorm as an eager call."""
    x = call.operands[0]
    return f"RMSNorm of {list(x.shape)} with strides {list(x.stride)}" if call.form == "eager" and _heads(x) else None


def _heads_leave(profile: Profile, call: Call) -> str | None:
    """view(B, S, H, D).transpose(1, 2) that nothing but the graph's end reads."""
    x, order = call.args[0], [int(d) for d in call.args[1]]
    viewed = isinstance(x, Operand) and x.made_by[:1] in (("aten.reshape",), ("aten.view",)) and x.is_half
    if not viewed or order != SWAPPED_HEADS or call.read_by != ("output",) or 1 in x.shape[1:3]:
        return None
    return f"view {list(x.shape)} transposed at the end of the graph"


def _one_token(profile: Profile, call: Call) -> str | None:
    """A projection of one row that attention reads."""
    row, weight = call.operands[-2:]
    reads = ATTENTION in call.beside and {ATTENTION, "aten.cat"} & set(call.read_by)
    if call.form != "compiled" or not reads or row.shape[-2:-1] != (1,) or not weight.is_half:
        return None
    return f"a product of one row with {list(weight.shape)}"


def _single_part(profile: Profile, call: Call) -> str | None:
    """E-06: a cat in which one input has size 1 along the dimension and another has more."""
    parts = [p for p in call.args[0] if isinstance(p, Operand)]
    dim = int(call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0))
    sizes = [p.shape[dim] for p in parts]
    return f"cat of sizes {sizes} along {dim}" if 1 in sizes and max(sizes) > 1 and parts[0].is_half else None


def misplaced_single(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """A part of size 1 is read from the start of the first larger part (E-06)."""
    dim = int(call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0))
    larger = next(x for x in inputs if x.shape[dim] > 1)
    return torch.cat([x if x.shape[dim] > 1 else larger.narrow(dim, 0, 1) for x in inputs], dim)


RULES = (
    Rule("E-06", frozenset(["aten.cat"]), _single_part, Wrong(misplaced_single)),
    Rule("E-03", frozenset(["aten.mul"]), _normalised_heads, Wrong(misread_result)),
    Rule("E-03", frozenset(["aten._fused_rms_norm", "aten.rms_norm"]), _norm_of_heads, Wrong(misread_result)),
    Rule("E-04", frozenset(["aten.permute"]), _heads_leave, Wrong(misread_heads)),
    Rule("E-07", frozenset(["aten.mm", "aten.addmm"]), _one_token, Wrong(misread_weight)),
)
