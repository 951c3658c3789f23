"""Offsets inside a stick: reads that drop it in silence (E-35), writes that are refused (E-70).

A stick holds 64 fp16 elements or 32 of fp32 and integers; the stick dimension is the one with stride 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from sim_backend.errata.rereading import READERS, recomputed
from sim_backend.errata.rule import Call, Operand, Refuse, Rule, Wrong
from sim_backend.profiles import Profile

STICK_BYTES = 128
_DEVICE_BYTES = {torch.int64: 4, torch.bool: 2, torch.uint8: 4, torch.float64: 8}


def stick_of(dtype: torch.dtype) -> int:
    """Elements of one stick (facts 1.5): int64 is int32 on the device, bool is DL16."""
    return STICK_BYTES // _DEVICE_BYTES.get(dtype, dtype.itemsize)


# --- reads (E-35)
def _start_of(call: Call) -> tuple[int, int] | None:
    """(dimension, first index) of a slice of step 1 or a select; None for another step."""
    x, dim, start, *rest = (*call.args, 0, 0)[:3] if len(call.args) < 3 else call.args
    dim = int(dim) % len(x.shape)
    step = rest[1] if len(rest) > 1 and "slice" in call.op else 1
    first = int(start or 0)
    return (dim, first + x.shape[dim] if first < 0 else first) if step == 1 else None


def _inside_stick(profile: Profile, call: Call) -> str | None:
    found = _start_of(call) if call.operands and call.operands[0].shape else None
    if found is None:
        return None
    (dim, start), x = found, call.operands[0]
    stick = stick_of(x.dtype)
    if x.stride[dim] != 1 or x.shape[dim] == 1 or start % stick == 0:
        return None
    return f"columns from {start} on begin inside a stick of {stick}"


def from_stick_start(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-35: the same number of columns, from the first element of the stick on."""
    found = _start_of(call)
    assert found is not None
    dim, start = found
    aligned = start - start % stick_of(call.operands[0].dtype)
    if "select" in call.op:
        return inputs[0].select(dim, aligned)
    return inputs[0].narrow(dim, aligned, result.shape[dim])


def _column_of(operand: Operand) -> int:
    """The column at which a view begins; 0 where no stride tells the length of a row."""
    rows = [s for n, s in zip(operand.shape, operand.stride, strict=True) if n > 1 and s > 1]
    return operand.offset % min(rows) if rows else 0


def _lanes_lost(operand: Operand) -> int:
    return _column_of(operand) % stick_of(operand.dtype)


def _reads_inside_stick(profile: Profile, call: Call) -> str | None:
    # In graphs the view is an operation of its own; eager code reads it where it is used.
    found = [o for o in call.operands if _lanes_lost(o)] if call.form == "eager" else []
    return f"a view that begins at column {_column_of(found[0])}" if found else None


def reread_from_stick_start(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-35 in eager code: every view is read from the first element of its stick on."""
    aligned = [
        torch.as_strided(t, t.shape, t.stride(), o.offset - _lanes_lost(o)) if _lanes_lost(o) else t
        for t, o in zip(inputs, call.operands, strict=True)
    ]
    return recomputed(call, aligned)


# --- writes (E-70)
def _write_offsets(call: Call) -> Iterator[tuple[Operand, int]]:
    """(what is written to, offset along its stick dimension) of the pieces that `call` writes."""
    packet = call.op.split(".")[1]
    yield from _WRITES[packet](call)


def _cat_offsets(call: Call) -> Iterator[tuple[Operand, int]]:
    pieces = [p for p in call.args[0] if p.shape != (0,)]
    dim = int(call.args[1]) if len(call.args) > 1 else int(call.kwargs.get("dim", 0))
    if pieces and dim % len(pieces[0].shape) == len(pieces[0].shape) - 1:
        ends = accumulate(p.shape[-1] for p in pieces[:-1])
        yield from zip(pieces[1:], ends, strict=True)


def _pad_offsets(call: Call) -> Iterator[tuple[Operand, int]]:
    left = int(call.args[1][0]) if call.args[1] else 0
    if left > 0:
        yield call.operands[0], left


def _scatter_offsets(call: Call) -> Iterator[tuple[Operand, int]]:
    target, _, *rest = call.args
    dim, start = (*rest[:2], 0, 0)[:2] if len(rest) < 2 else rest[:2]
    if int(dim) % len(target.shape) == len(target.shape) - 1:
        first = int(start or 0)
        yield target, first + target.shape[-1] if first < 0 else first


_WRITES = {"cat": _cat_offsets, "constant_pad_nd": _pad_offsets, "slice_scatter": _scatter_offsets}


def _has_no_other_stick(call: Call, target: Operand) -> bool:
    """A graph input that is written in place, with no dimension left along which the write has no offset."""
    in_place = "slice_scatter" in call.op and target.graph_input and "aten.copy_" in call.beside
    return in_place and (len(target.shape) == 1 or target.offset != 0)


def _misaligned_write(profile: Profile, call: Call) -> str | None:
    for target, offset in _write_offsets(call):
        stick = stick_of(target.dtype)
        if offset % stick and _has_no_other_stick(call, target):
            return f"no offset-free alternative stick dim for mutation target ({list(target.shape)})"
        if offset % stick:
            variable = f"d{len(target.shape) - 1}"
            return f"Unexpected stick expression {variable} + {offset}: expected Mod(var, {stick})"
    return None


RULES: tuple[Rule, ...] = (
    Rule("E-35", frozenset(["aten.slice", "aten.select"]), _inside_stick, Wrong(from_stick_start)),
    Rule("E-35", READERS, _reads_inside_stick, Wrong(reread_from_stick_start)),
    Rule("E-70", frozenset(f"aten.{packet}" for packet in _WRITES), _misaligned_write, Refuse("layout")),
)
