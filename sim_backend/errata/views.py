"""Views, indices and copies in compiled graphs: E-27 to E-31, E-38, E-50, E-52."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.reductions import zeros
from sim_backend.errata.rule import Abort, Call, Operand, Raise, Refuse, Rule, Within, Wrong
from sim_backend.profiles import Profile

STICK = 64
SPAN_LIMIT = 256 << 20  # bytes of a tensor that one core reaches (facts 4.5)
IMMEDIATE_LIMIT = (1 << 21) - 1  # largest step of an address, 22 bits with a sign

# What a call cannot tell by itself: words on it, found in its graph by `sim_backend.compiler.context`.
SAME_INDEX = "gathers again by the same index"
OTHER_INDEX = "gathers again by another index"
FALLBACK_SLICES = "takes two CPU slices of one tensor"
IN_PLACE = "writes into its first operand"


# --- indices
def _index_operands(call: Call) -> list[tuple[int, Operand]]:
    """(dimension, index) of each index tensor of an advanced index."""
    indices = call.args[1] if len(call.args) > 1 else ()
    return [(d, i) for d, i in enumerate(indices) if isinstance(i, Operand)]


def _zero_dim_index(profile: Profile, call: Call) -> str | None:
    """E-27: compiled only; an index of one element is right."""
    found = [d for d, index in _index_operands(call) if index.shape == ()]
    return f"dimension {found[0]} indexed with a 0-dim tensor" if found and call.form == "compiled" else None


def first_page(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-27: the index is not applied; the page at offset 0 is read."""
    indices = list(call.args[1])
    values = iter(inputs[1:])
    read = [next(values) if isinstance(i, Operand) else None for i in indices]
    zeroed = [torch.zeros_like(v) if v is not None and v.dim() == 0 else v for v in read]
    return torch.ops.aten.index.Tensor(inputs[0], zeroed)


def _one_row(profile: Profile, call: Call) -> str | None:
    """E-30: one row taken from a table."""
    index = call.operands[-1]
    return "one row selected" if math.prod(index.shape) == 1 and len(call.operands) > 1 else None


def _gather_beyond_core(profile: Profile, call: Call) -> str | None:
    """E-29: an indexed tensor is whole on every core, so its size is its span."""
    found = _index_operands(call)
    size = math.prod(call.operands[0].shape) * call.operands[0].dtype.itemsize
    return f"gather from an operand of {size >> 20} MB on one core" if found and size > SPAN_LIMIT else None


def _large_index_stride(profile: Profile, call: Call) -> str | None:
    """E-29: one step of the index must fit into an immediate operand."""
    found = _index_operands(call)
    if not found or call.form != "compiled":
        return None
    operand = call.operands[0]
    step = math.prod(operand.shape[found[-1][0] + 1 :]) * operand.dtype.itemsize
    return f"an index step of {step} bytes" if step > IMMEDIATE_LIMIT else None


def _gathers_again(profile: Profile, call: Call) -> str | None:
    """E-29: two gathers in one bundle, by the same index or by two."""
    return next((word for word in (SAME_INDEX, OTHER_INDEX) if word in call.context), None)


def rotated_rows(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-29: the second of two fused gathers takes rows at other places of the index."""
    return result.roll(1, _index_operands(call)[0][0])


# --- index_copy
def _inner_on_device(profile: Profile, call: Call) -> str | None:
    """E-28: the indexed dimension is not the outermost one of the default layout."""
    target, dim = call.operands[0], int(call.args[1])
    if call.form != "compiled" or len(target.shape) < 2:
        return None
    order = [d for d in device_order(target.shape) if d is not None]
    outer = order.index(dim % len(target.shape)) if dim % len(target.shape) in order else None
    return None if outer == 0 else f"dimension {dim} is not outermost in the default layout"


def device_order(shape: Sequence[int]) -> list[int]:
    """Host dimensions that matter from the outermost on the device inwards (facts 2.2); the stick's count as the last.

    [d1, ..., sticks of the last, d0, stick]: dimensions of size 1 are dropped.
    """
    last = len(shape) - 1
    sizes = {**dict(enumerate(shape)), last: math.ceil(shape[-1] / STICK)}
    return [d for d in [*range(1, last), last, 0] if sizes[d] > 1]


def conflated_copy(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-28: rows are written with the strides of the host into memory that is in the order of the device."""
    target, index, source = inputs
    dim = int(call.args[1]) % target.dim()
    memory = _to_memory(target)
    return _from_memory(memory.reshape(target.shape).index_copy(dim, index.long(), source), target.shape)


def _to_memory(x: torch.Tensor) -> torch.Tensor:
    sticks = x.unflatten(-1, (-1, STICK)) if x.shape[-1] % STICK == 0 else x.unsqueeze(-2)
    return sticks.movedim(0, -2).contiguous()


def _from_memory(memory: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    width = STICK if shape[-1] % STICK == 0 else shape[-1]
    sticks = memory.reshape(*shape[1:-1], shape[-1] // width, shape[0], width)
    return sticks.movedim(-2, 0).reshape(shape)


# --- views
def _offset_input(profile: Profile, call: Call) -> str | None:
    """E-31: a view of a larger tensor enters the graph."""
    offset = call.operands[0].offset
    return f"graph input at storage offset {offset}, read from element 0" if offset else None


def _read_from_start(profile: Profile, call: Call) -> bool:
    return True


def _stepped_slice(profile: Profile, call: Call) -> str | None:
    """E-31: an offset with a step above 1, on another dimension than the stick's (#2803)."""
    dim, start, _, step = slice_arguments(call)
    if call.form != "compiled" or step < 2 or start == 0 or dim == len(call.operands[0].shape) - 1:
        return None
    return f"slice from {start} with step {step}: the start is dropped"


def slice_arguments(call: Call) -> tuple[int, int, int, int]:
    """(dim, start, end, step) of a slice, none negative."""
    names = ("dim", "start", "end", "step")
    given = {**dict(zip(names, call.args[1:], strict=False)), **call.kwargs}
    shape = call.operands[0].shape
    dim = int(given.get("dim") or 0) % len(shape)
    size = shape[dim]
    start, end = (given.get("start") or 0), given.get("end")
    bounds = [min(v + size if v < 0 else v, size) for v in (start, size if end is None else end)]
    return dim, bounds[0], bounds[1], int(given.get("step") or 1)


def unshifted_slice(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-31: the same step from element 0."""
    dim, _, _, step = slice_arguments(call)
    return inputs[0].narrow(dim, 0, (result.shape[dim] - 1) * step + 1)[
        (slice(None),) * dim + (slice(None, None, step),)
    ]


# --- casts
def _partial_stick_cast(profile: Profile, call: Call) -> str | None:
    """E-38: between fp16 and bf16, the last stick not full."""
    operand, wanted = call.operands[0], call.args[1] if len(call.args) > 1 else None
    changes = operand.is_half and wanted in (torch.float16, torch.bfloat16) and wanted != operand.dtype
    if not changes or not operand.shape or operand.shape[-1] % STICK == 0:
        return None
    return f"{operand.dtype} to {wanted} with a last dimension of {operand.shape[-1]}"


def lost_tail(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-38: the lanes of the last, partial stick are not converted."""
    kept = result.shape[-1] // STICK * STICK
    return torch.cat([result[..., :kept], torch.full_like(result[..., kept:], float(parameters["tail_value"]))], -1)


def _sliced_difference(profile: Profile, call: Call) -> str | None:
    return "difference of two slices that the CPU made" if FALLBACK_SLICES in call.context else None


# --- writes
def _strided_product(profile: Profile, call: Call) -> str | None:
    """E-52: an in-place product on a tensor that is not contiguous."""
    if IN_PLACE not in call.context or call.operands[0].is_contiguous or not call.original.startswith("aten.mul"):
        return None
    return f"mutation op aten.mul_ on strides {list(call.operands[0].stride)}: cannot restickify"


def _symbolic_offset(profile: Profile, call: Call) -> str | None:
    """E-52: narrow().copy_ whose offset is no constant of the graph: traced, a slice and a slice_scatter."""
    start = call.args[2] if len(call.args) > 2 else call.kwargs.get("start")
    written = isinstance(start, torch.SymInt) and "aten.slice_scatter" in call.beside
    return "shape error in scatter op, can not broadcast" if written else None


def _index_add_in_place(profile: Profile, call: Call) -> str | None:
    return "index_add_" if IN_PLACE in call.context else None


_INDEX = frozenset(["aten.index"])
RULES: tuple[Rule, ...] = (
    Rule("E-27", _INDEX, _zero_dim_index, Wrong(first_page)),
    Rule("E-28", frozenset(["aten.index_copy"]), _inner_on_device, Wrong(conflated_copy)),
    Rule("E-29", _INDEX, _gather_beyond_core, Refuse("shape_limit")),
    Rule("E-29", _INDEX, _large_index_stride, Abort("Immediate value out of boundary in instruction: L3_ADDEARIMM")),
    Rule("E-29", _INDEX, _gathers_again, Wrong(rotated_rows)),
    Rule("E-30", frozenset(["aten.embedding", "aten.index_select", "aten.index"]), _one_row,
         Abort("There must be at least one valid candidate.")),
    Rule("E-31", frozenset(["spyre.graph_input"]), _offset_input, Within(_read_from_start)),
    Rule("E-31", frozenset(["aten.slice"]), _stepped_slice, Wrong(unshifted_slice)),
    Rule("E-38", frozenset(["prims.convert_element_type"]), _partial_stick_cast, Wrong(lost_tail)),
    Rule("E-50", frozenset(["aten.sub"]), _sliced_difference, Wrong(zeros)),
    Rule("E-52", frozenset(["aten.mul"]), _strided_product, Refuse("layout")),
    Rule("E-52", frozenset(["aten.slice"]), _symbolic_offset, Raise(RuntimeError, kind="dynamic_shape")),
    Rule("E-52", frozenset(["aten.index_add"]), _index_add_in_place, Raise(NotImplementedError,
         "Could not run 'aten::index_add_' with arguments from the 'spyre' backend.")),
)  # fmt: skip
