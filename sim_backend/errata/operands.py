"""Refusals by dtype or shape of operands: E-51, E-61, E-65. Each returns the refused thing, or None.

What a call of an ATen operation shows is a rule; what only the device's own operations show is asked by the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sim_backend.errata.rule import Call, Operand, Refuse, Rule
from sim_backend.profiles import Profile, split_op

FORMATS = {
    torch.float32: "IEEE_FP32", torch.float16: "SEN169_FP16", torch.bfloat16: "SEN169_FP16", torch.int64: "IEEE_INT32",
    torch.int32: "IEEE_INT32", torch.int16: "SENINT16", torch.int8: "SENINT8", torch.uint8: "SENUINT32",
    torch.bool: "SEN169_FP16", torch.float64: "INVALID",
}  # fmt: skip
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
BIT_OPERATIONS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "__lshift__",
                  "__rshift__")  # fmt: skip
COMPARISONS = {"eq": "equal", "ne": "notequal", "ge": "greaterequal", "gt": "greaterthan", "le": "lesserequal",
               "lt": "lesserthan"}  # fmt: skip


def dtype_problem(profile: Profile, opfunc: str, dtype: torch.dtype) -> str | None:
    """ "gelufwd on DataFormats.IEEE_FP32" if `opfunc` does not compute on `dtype` (facts 3.5)."""
    if profile.ideal:
        return None
    if opfunc.startswith("batchmatmul"):
        legal = dtype in (torch.float16, torch.bfloat16) or (dtype == torch.float32 and not profile.has("E-65"))
    elif dtype == torch.float32:
        legal = opfunc in profile.fp32_ops
    elif dtype in INTEGERS:
        legal = opfunc in profile.int_ops
    else:
        legal = dtype != torch.float64
    return None if legal else f"{opfunc} on DataFormats.{FORMATS.get(dtype, 'INVALID')}"


def constant_comparison_problem(profile: Profile, opfunc: str, dtype: torch.dtype) -> str | None:
    """E-51: an integer tensor compared with a Python constant."""
    rule = profile.errata.get("E-51", {}).get("int_constant_comparison")
    if rule == "raise" and opfunc in COMPARISONS.values() and dtype in INTEGERS:
        return f"{opfunc} of {dtype} with a constant on DataFormats.{FORMATS[dtype]}"
    return None


def stored_bool_problem(profile: Profile, name: str) -> str | None:
    """E-51: a bool intermediate that is stored because it leaves the graph or its bundle."""
    if profile.errata.get("E-51", {}).get("stored_bool") == "graph_border":
        return f"bool intermediate {name} as a stored tensor"
    return None


def crossing_where(profile: Profile, call: Call) -> str | None:
    """E-61: `where` whose operands are broadcast along different dimensions ([B,1,L,1] and [B,1,1,L] to [B,1,L,L])."""
    shapes = [o.shape for o in call.operands]
    result = torch.broadcast_shapes(*shapes)
    spread = {_broadcast_dims(shape, result) for shape in shapes if len(shape) == len(result)}
    crossing = [a for a in spread for b in spread if a - b and b - a]
    return f"where on operands of shapes {[list(s) for s in shapes]}" if crossing else None


def _compared_constant(profile: Profile, call: Call) -> str | None:
    """E-51 in eager calls; in graphs the compiler asks for each loop, which sees constants of any origin."""
    packet, overload = split_op(call.op)
    if call.form != "eager" or overload != "Scalar":
        return None
    return constant_comparison_problem(profile, COMPARISONS[packet.removeprefix("aten.")], call.operands[0].dtype)


def _subscripts(profile: Profile, call: Call) -> str | None:
    """E-51: int32 subscripts in eager calls."""
    narrow = any(isinstance(i, Operand) and i.dtype == torch.int32 for i in call.args[1])
    return "type conversion from torch.int32 to torch.int64" if narrow and call.form == "eager" else None


def _packed_bits(profile: Profile, call: Call) -> str | None:
    """E-51: bits of integers combined with a constant, as in packing token types into ids."""
    first, other = call.operands[0], call.args[1]
    is_constant = isinstance(other, int) or (isinstance(other, Operand) and not other.shape)
    if profile.errata["E-51"]["bit_operations"] != "constant" or first.dtype not in INTEGERS or not is_constant:
        return None
    return f"{split_op(call.op)[0].removeprefix('aten.')} on DataFormats.{FORMATS[first.dtype]}"


def bool_mask_problem(profile: Profile) -> str | None:
    """E-61: a bool tensor as the mask of attention."""
    return "where3 on a bool attention mask" if profile.has("E-61") else None


def integer_bool_problem(profile: Profile, opfunc: str, dtype: torch.dtype) -> str | None:
    """E-61: a bool made by ordering integers."""
    if profile.has("E-61") and dtype == torch.int32 and opfunc == "lesserthan":
        return "bool from lesserthan on DataFormats.IEEE_INT32"
    return None


def _broadcast_dims(shape: Sequence[int], result: Sequence[int]) -> frozenset[int]:
    return frozenset(d for d, (a, b) in enumerate(zip(shape, result, strict=True)) if a == 1 and b > 1)


RULES = (
    Rule("E-51", frozenset(f"aten.{op}" for op in COMPARISONS), _compared_constant, Refuse("unsupported_dtype")),
    Rule("E-51", frozenset(["aten.index"]), _subscripts, Refuse("unsupported_dtype")),
    Rule(
        "E-51",
        frozenset(f"aten.{op}" for op in BIT_OPERATIONS),
        _packed_bits,
        Refuse("unsupported_dtype"),
        before_fallback=True,
    ),
    Rule("E-61", frozenset(["aten.where"]), crossing_where, Refuse("unsupported_op")),
)
