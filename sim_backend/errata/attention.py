"""Attention: E-01 (leak), E-17 (transposed operands), E-21 (left padding), E-22 (length), E-61, E-65, E-72 (refused).

The value defects are inside the operation: the rules hand it parameters, and it calls the functions here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.layouts import ATTENTION, misread
from sim_backend.errata.rule import Call, Operand, Refuse, Rule, Within
from sim_backend.errata.softmax import leaked, masked_below
from sim_backend.numerics import round_dl16_
from sim_backend.profiles import Profile

HEAD_MULTIPLE = 64
OPS = frozenset([ATTENTION])
Defects = Mapping[str, Any]  # erratum -> what its rule hands the operation


# --- inside the operation
def spoil_operands(operands: Sequence[torch.Tensor], defects: Defects) -> list[torch.Tensor]:
    """q, k, v as the device reads them: with the default layout of their shapes where E-17 says so."""
    marked = defects.get("E-17", [False] * len(operands))
    return [misread(t, t.stride()) if wrong else t for t, wrong in zip(operands, marked, strict=True)]


def with_tail(scores: torch.Tensor, v: torch.Tensor, defects: Defects) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and values with the padded positions of the last stick, which attend too (E-22)."""
    if "E-22" not in defects:
        return scores, v
    tail = defects["E-22"]
    positions, value = int(tail["positions"]), float(tail["tail_value"]) * float(v.pow(2).mean().sqrt())
    padded = torch.nn.functional.pad(scores, (0, positions), value=float(tail["tail_score"]))
    return padded, torch.nn.functional.pad(v, (0, 0, 0, positions), value=value)


def spoils_probabilities(scores: torch.Tensor, defects: Defects) -> bool:
    """True if a defect of probabilities applies and a score of any row may count as masked.

    None does where even the smallest score is not so far below the largest, for rounding keeps the order.
    """
    limits = [float(defects[e]["masked_below"]) for e in ("E-01", "E-21") if e in defects]
    if not limits or not scores.numel():
        return bool(limits)
    return not bool(round_dl16_(scores.amin() - scores.amax()) > max(limits))


def spoil_probabilities(probabilities: torch.Tensor, shifted: torch.Tensor, defects: Defects) -> torch.Tensor:
    """The probabilities of scores whose largest was subtracted: what E-01 leaves in masked places and E-21 in rows."""
    if "E-01" in defects:
        probabilities = leaked(probabilities, shifted, defects["E-01"])
    if "E-21" in defects:
        probabilities = _lost_rows(probabilities, shifted, defects["E-21"])
    return probabilities


def _lost_rows(probabilities: torch.Tensor, shifted: torch.Tensor, parameters: Defects) -> torch.Tensor:
    """Rows that begin with many masked keys attend to every key alike: their largest magnitude was a mask's."""
    masked = shifted <= parameters["masked_below"]
    if not bool(masked[..., 0].any()):
        return probabilities
    leading = masked.int().cumprod(-1).sum(-1, keepdim=True)
    lost = leading >= float(parameters["leading_share"]) * masked.shape[-1]
    return torch.where(lost, 1.0 / masked.shape[-1], probabilities)


# --- rules
def head_multiple_problem(profile: Profile, head: int) -> str | None:
    """The refused thing if the head size is not a multiple of 64 (facts 6.8)."""
    if profile.ideal or head % HEAD_MULTIPLE == 0:
        return None
    return f"scaled_dot_product_attention with a head of {head}: expected a multiple of {HEAD_MULTIPLE}"


def _mask(call: Call) -> Operand | None:
    mask = call.args[3] if len(call.args) > 3 else call.kwargs.get("attn_bias")
    return mask if isinstance(mask, Operand) else None


def _is_causal(call: Call) -> bool:
    return bool(call.args[5] if len(call.args) > 5 else call.kwargs.get("is_causal", False))


def _may_leak(profile: Profile, call: Call) -> str | None:
    return "attention with a mask that may be -inf" if _mask(call) is not None or _is_causal(call) else None


def _leak(profile: Profile, call: Call) -> dict[str, Any]:
    return {**profile.errata["E-01"], **masked_below(profile)}


def _transposed(profile: Profile, call: Call) -> str | None:
    wrong = [n for n, bad in zip("qkv", _not_contiguous(profile, call), strict=True) if bad]
    return f"{', '.join(wrong)} not contiguous" if wrong else None


def _not_contiguous(profile: Profile, call: Call) -> tuple[bool, ...]:
    return tuple(not o.is_contiguous for o in call.operands[:3])


def _additive_mask(profile: Profile, call: Call) -> str | None:
    mask = _mask(call)
    additive = mask is not None and mask.dtype.is_floating_point
    return "attention with a mask that may begin with -inf" if additive else None


def _lost(profile: Profile, call: Call) -> dict[str, Any]:
    return {**profile.errata["E-21"], **masked_below(profile)}


def _missing(call: Call) -> int:
    return -call.operands[1].shape[-2] % HEAD_MULTIPLE


def _odd_length(profile: Profile, call: Call) -> str | None:
    length = call.operands[1].shape[-2]
    return f"length {length} is not a multiple of {HEAD_MULTIPLE}" if _missing(call) else None


def _tail(profile: Profile, call: Call) -> dict[str, Any]:
    return {**profile.errata["E-22"], "positions": _missing(call)}


def _bool_mask(profile: Profile, call: Call) -> str | None:
    mask = _mask(call)
    return "where3 on a bool attention mask" if mask is not None and mask.dtype == torch.bool else None


def _fp32(profile: Profile, call: Call) -> str | None:
    """E-65: its products have fp32 operands. Eager calls meet the dtype table of facts 3.5 instead."""
    is_fp32 = call.form == "compiled" and call.operands[0].dtype == torch.float32
    return "batchmatmul on DataFormats.IEEE_FP32" if is_fp32 else None


def _unequal_heads(profile: Profile, call: Call) -> str | None:
    head, value_head = call.operands[0].shape[-1], call.operands[2].shape[-1]
    if head == value_head:
        return None
    return f"scaled_dot_product_attention with a value head of {value_head} unlike the query head of {head}"


RULES = (
    Rule("E-65", OPS, _fp32, Refuse("unsupported_dtype")),
    Rule("E-72", OPS, _unequal_heads, Refuse("layout")),
    Rule("E-61", OPS, _bool_mask, Refuse("unsupported_dtype")),
    Rule("E-01", OPS, _may_leak, Within(_leak), by_value=True),
    Rule("E-17", OPS, _transposed, Within(_not_contiguous)),
    Rule("E-21", OPS, _additive_mask, Within(_lost), by_value=True),
    Rule("E-22", OPS, _odd_length, Within(_tail)),
)
