"""Reductions: E-39 (fp16 mean of small values), E-40 (sum and mean of spring 2026)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.rule import Call, Refuse, Rule, Wrong
from sim_backend.numerics import round_dl16
from sim_backend.profiles import Profile

STICK = 64
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_HALF_MIN = 2.0**-14  # the smallest normal number of fp16
_FRACTIONS = 512  # of a DL16 code


def reduced_dims(call: Call) -> tuple[int, ...]:
    """The dimensions that a sum or mean reduces, not negative, in order."""
    rank = len(call.operands[0].shape)
    named = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim")
    dims = range(rank) if named is None or named == () or named == [] else named
    return tuple(sorted(int(d) % max(rank, 1) for d in ([dims] if isinstance(dims, int) else dims)))


def reduces_everything(call: Call) -> bool:
    """True if one number is left."""
    return len(reduced_dims(call)) == len(call.operands[0].shape)


def is_mean(call: Call) -> bool:
    """True for any overload of mean."""
    return call.op.startswith("aten.mean.")


# --- E-39
def _lone_half_mean(profile: Profile, call: Call) -> str | None:
    """#2400 takes the mean of a whole fp16 vector in a call of its own. Means along rows, as norms take them, are right
    in the published models (facts 7.7)."""
    if call.fused or not call.operands[0].is_half or not reduces_everything(call):
        return None
    return "mean of a whole 16-bit tensor: wrong where its values are small"


def _lone_half_quotient(profile: Profile, call: Call) -> str | None:
    """#2400: the sum divided by a number, in a call of its own."""
    if call.fused or call.operands[0].dtype != torch.float16 or call.operands[0].shape != ():
        return None
    return "fp16 number divided by a number: wrong where the quotient is small"


def small_mean(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-39: each value is multiplied by the rounded 1/N before it is added, and products below a floor vanish.

    A result below fp16's normal range then reaches the host as its fraction alone. Nothing changes for other values.
    """
    x = inputs[0]
    products = x * round_dl16(torch.tensor(1.0 / max(x.numel(), 1)))
    vanishing = (products != 0) & (products.abs() < float(parameters["vanishing_product"]))
    value = products.masked_fill(vanishing, 0.0).sum().reshape(result.shape) if vanishing.any() else result
    return fraction_of_small(value, parameters) if call.operands[0].dtype == torch.float16 else value


def small_quotient(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-39 for a sum that is divided afterwards: the quotient is right on the device, its small values are misread."""
    return fraction_of_small(result, parameters)


def fraction_of_small(value: torch.Tensor, parameters: Mapping[str, Any]) -> torch.Tensor:
    """`value`, but below fp16's normal range the DL16 fraction is taken for the bits of a subnormal number."""
    if parameters["small_results"] != "fraction":
        return value
    rounded = round_dl16(value.float())
    fraction = (torch.frexp(rounded.abs()).mantissa * 2 - 1) * _FRACTIONS
    misread = torch.copysign(fraction.floor() / _FRACTIONS * _HALF_MIN, rounded)
    return torch.where((rounded.abs() < _HALF_MIN) & (rounded != 0), misread, value)


# --- E-40
def _rank_five(profile: Profile, call: Call) -> str | None:
    rank = len(call.operands[0].shape)
    if rank != 5 or not reduces_everything(call) or not call.operands[0].is_half:
        return None
    return "all dimensions of a rank-5 tensor reduced"


def first_block_only(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-40: the outermost dimension is not reduced, its first block is taken; a mean is not divided."""
    return inputs[0][:1].sum().reshape(result.shape)


def _ragged_mean(profile: Profile, call: Call) -> str | None:
    """#1706: the mean along the last dimension of (3,7,9), whose sum is right."""
    operand = call.operands[0]
    rank = len(operand.shape)
    along_stick = is_mean(call) and reduced_dims(call) == (rank - 1,) and rank == 3
    if not along_stick or not operand.is_half or operand.shape[-1] % STICK == 0:
        return None
    return f"mean along a last dimension of {operand.shape[-1]}, which does not fill its stick"


def padded_count(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-40: the sum is divided by the padded length."""
    length = inputs[0].shape[-1]
    return result * (length / (math.ceil(length / STICK) * STICK))


def _integer_sum(profile: Profile, call: Call) -> str | None:
    return "sum of integers gives zeros" if not is_mean(call) and call.operands[0].dtype in _INTEGERS else None


def zeros(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-40 for integers, E-50: nothing but zeros."""
    return torch.zeros_like(result)


def _single_mean(profile: Profile, call: Call) -> str | None:
    return "mean of a float32 tensor" if is_mean(call) and call.operands[0].dtype == torch.float32 else None


def scaled_mean(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-40: the float32 mean is off by a factor."""
    return result * float(parameters["float32_mean_factor"])


def _sum_to_single(profile: Profile, call: Call) -> str | None:
    wanted = call.kwargs.get("dtype")
    if wanted != torch.float32 or call.operands[0].dtype == torch.float32:
        return None
    return f"type conversion from {call.operands[0].dtype} to {wanted}"


_MEAN, _SUM, _BOTH = frozenset(["aten.mean"]), frozenset(["aten.sum"]), frozenset(["aten.mean", "aten.sum"])
RULES: tuple[Rule, ...] = (
    Rule("E-39", _MEAN, _lone_half_mean, Wrong(small_mean), by_value=True),
    Rule("E-39", frozenset(["aten.div"]), _lone_half_quotient, Wrong(small_quotient), by_value=True),
    Rule("E-40", _SUM, _sum_to_single, Refuse("unsupported_dtype")),
    Rule("E-40", _BOTH, _rank_five, Wrong(first_block_only)),
    Rule("E-40", _MEAN, _ragged_mean, Wrong(padded_count)),
    Rule("E-40", _SUM, _integer_sum, Wrong(zeros)),
    Rule("E-40", _MEAN, _single_mean, Wrong(scaled_mean)),
)
