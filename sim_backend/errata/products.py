"""Matrix products and convolutions by product: E-23, E-25, E-26, E-48, E-49, E-65, E-68.

Sizes are those of [.., m, k] times [.., k, n]. A weight is a 2-D right operand; products of activations are batched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from sim_backend.errata.rule import Abort, Call, Refuse, Rule, Wrong
from sim_backend.profiles import Profile

STICK = 64
FP8_STICK = 128
CORES = 32
WEIGHTED = frozenset(["aten.mm", "aten.addmm"])
PRODUCTS = WEIGHTED | {"aten.bmm", "aten.baddbmm"}
CONVOLUTIONS = frozenset(["aten.convolution", "aten.convolution_overrideable"])


class Sizes(NamedTuple):
    """Of a product: the contracted size and the width of the result."""

    k: int
    n: int


def sizes_of(call: Call) -> Sizes:
    """The sizes of a product, whose last two operands are its factors."""
    left, right = call.operands[-2:]
    return Sizes(left.shape[-1], right.shape[-1])


def _fp32_product(profile: Profile, call: Call) -> str | None:
    # Eager calls meet the dtype table of facts 3.5 instead.
    is_fp32 = call.form == "compiled" and call.operands[-2].dtype == torch.float32
    return "batchmatmul on DataFormats.IEEE_FP32" if is_fp32 else None


def cannot_pad(profile: Profile, size: int) -> bool:
    """E-23: a size that is no whole number of sticks and larger than what the compiler pads."""
    parameters = profile.errata.get("E-23")
    return parameters is not None and size % STICK != 0 and size > int(parameters["pads_up_to"])


def _unpaddable(profile: Profile, call: Call) -> str | None:
    k = sizes_of(call).k
    return f"K = {k} is no multiple of {STICK} and too large to pad" if cannot_pad(profile, k) else None


def _one_column(profile: Profile, call: Call) -> str | None:
    return f"an output dimension of 1: K = {sizes_of(call).k}, N = 1" if sizes_of(call).n == 1 else None


def _odd_size(profile: Profile, call: Call) -> str | None:
    """K, or N beyond one stick, is no multiple of 64: the thing refused, as layout propagation words it."""
    k, n = sizes_of(call)
    if call.form == "eager" or n == 1 or cannot_pad(profile, k):
        return None
    wide = n if n > STICK and not cannot_pad(profile, n) else 0  # that size is E-23's where it is contracted
    odd = next((size for size in (k, wide) if size % STICK), None)
    if odd is None:
        return None
    return f"Unsupported stick expression floor(d2/{odd + -odd % STICK}) for a dimension of {odd}"


def _wide(profile: Profile, call: Call) -> str | None:
    n = sizes_of(call).n
    smallest = int(profile.errata["E-26"]["smallest_n"])
    if n < smallest or n % (STICK * CORES) == 0:
        return None
    return f"N = {n} is no multiple of {STICK * CORES}"


def misplaced_tail(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-26: the columns past the last whole group of 32 sticks hold those of `shift_sticks` sticks before."""
    width = result.shape[-1]
    whole = width - width % (STICK * CORES)
    shift = STICK * int(parameters["shift_sticks"])
    return torch.cat([result[..., :whole], result[..., whole - shift : width - shift]], -1)


def _fp8_sticks(profile: Profile, call: Call) -> str | None:
    k = call.operands[0].shape[-1]
    return f"K = {k} is no multiple of {FP8_STICK}" if k % FP8_STICK else None


def _strided_convolution(profile: Profile, call: Call) -> str | None:
    stride = call.args[3]
    if len(call.operands[1].shape) != 4 or max(stride) <= 1:
        return None
    return f"compound stick expression of conv2d with stride {list(stride)}"


RULES: tuple[Rule, ...] = (
    Rule("E-65", PRODUCTS, _fp32_product, Refuse("unsupported_dtype")),
    Rule("E-23", PRODUCTS, _unpaddable, Abort("could not identify K symbol", "shape_limit")),
    Rule(
        "E-25",
        PRODUCTS,
        _one_column,
        Refuse("shape_limit", "batchmatmul: cannot restickify any input layout of x to carry x_var=d1"),
    ),
    Rule("E-68", WEIGHTED, _odd_size, Refuse("shape_limit")),
    Rule("E-26", WEIGHTED, _wide, Wrong(misplaced_tail)),
    Rule(
        "E-48",
        frozenset(["aten._scaled_mm"]),
        _fp8_sticks,
        Abort("Could not find any suitable dimension mapping", "shape_limit"),
    ),
    Rule("E-49", CONVOLUTIONS, _strided_convolution, Refuse("layout"), before_fallback=True),
)
