"""The mistakes, as data: kind → from one node to the nodes it might have been.

Each yields whole replacements of the node; the numbering of values never changes, so every other node stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pipeline.verification.mutants.sections import Node, Section

Mistake = Callable[[Section, int], Iterator[Node]]

EPS_LIMIT = 1e-3
"""Literals below this are epsilons: they move by factors of ten, or are dropped."""

CONSTANT_STEPS = (1 + 2**-4, 1 - 2**-4, 1 + 2**-8, 1 - 2**-8, 1 + 2**-12)

SWAPS: dict[str, tuple[str, ...]] = {
    "add": ("sub", "mul"),
    "sub": ("add", "rsub"),
    "rsub": ("sub",),
    "mul": ("add", "div"),
    "div": ("mul",),
    "tanh": ("sigmoid", "erf"),
    "sigmoid": ("tanh", "silu"),
    "erf": ("tanh",),
    "exp": ("sigmoid", "neg"),
    "log": ("log1p", "sqrt"),
    "sqrt": ("rsqrt", "abs"),
    "rsqrt": ("sqrt", "reciprocal"),
    "reciprocal": ("rsqrt",),
    "relu": ("silu", "abs"),
    "silu": ("relu", "gelu"),
    "gelu": ("silu", "relu"),
    "sin": ("cos",),
    "cos": ("sin",),
    "neg": ("abs",),
    "abs": ("neg",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "ge": ("gt", "le"),
    "gt": ("ge", "lt"),
    "le": ("lt", "ge"),
    "lt": ("le", "gt"),
    "__and__": ("__or__",),
    "bitwise_and": ("bitwise_or",),
    "logical_and": ("logical_or",),
    "mean": ("sum", "amax"),
    "sum": ("mean",),
    "triu": ("tril",),
    "tril": ("triu",),
}
"""Operator → what it might be taken for. The overload is kept where the other has it, else its default is tried."""

AXES: dict[str, tuple[int, ...]] = {
    "softmax": (1,), "mean": (1,), "sum": (1,), "cat": (1,), "chunk": (2,), "split": (2,), "cumsum": (1,),
    "transpose": (1, 2), "unsqueeze": (1,), "select": (1,), "slice": (1,), "flip": (1,), "roll": (2,), "amax": (1,),
    "gather": (1,), "glu": (1,), "squeeze": (1,), "unbind": (1,), "repeat_interleave": (2,),
}  # fmt: skip
"""Operator → positions of arguments that name an axis."""

COUNTS: dict[str, tuple[int, ...]] = {
    "select": (2,), "arange": (0, 1), "cumsum": (), "roll": (1,), "tril": (1,), "triu": (1,), "add": (1,), "sub": (1,),
    "le": (1,), "lt": (1,), "ge": (1,), "gt": (1,), "eq": (1,), "ne": (1,), "pow": (1,), "mul": (1,), "getitem": (1,),
    "embedding": (), "full": (1,), "new_full": (2,), "clamp_max": (1,), "clamp_min": (1,), "rsub": (1,),
}  # fmt: skip
"""Operator → positions of whole numbers that may be one off."""

ORDERED = frozenset(
    {"sub", "rsub", "div", "pow", "matmul", "bmm", "mm", "where", "scaled_dot_product_attention", "cat"}
)
"""Operators whose tensors do not commute."""


def base_of(node: Node) -> str:
    """`aten.add.Tensor` → `add`."""
    op: str = node.get("op", "")
    return op.split(".")[1] if op.startswith("aten.") else op


def changed_args(node: Node, position: int, value: Any) -> Node:
    """The node with one argument replaced."""
    return {**node, "args": [*node["args"][:position], value, *node["args"][position + 1 :]]}


def is_reference(value: Any) -> bool:
    """Whether an argument is a reference to an earlier value."""
    return isinstance(value, dict) and "ref" in value


def _floats(node: Node) -> Iterator[tuple[float, Callable[[float], Node]]]:
    """Every float literal of a node with the way to put another in its place."""
    for position, value in enumerate(node["args"]):
        if type(value) is float:
            yield value, lambda v, at=position: changed_args(node, at, v)  # type: ignore[misc]
    for name, value in node.get("kwargs", {}).items():
        if type(value) is float:
            yield value, lambda v, key=name: {**node, "kwargs": {**node["kwargs"], key: v}}  # type: ignore[misc]


def sign(section: Section, number: int) -> Iterator[Node]:
    """A constant or an exponent negated, a negation left out, a sum that becomes a difference."""
    node = section.nodes[number]
    for value, put in _floats(node):
        if value != 0:
            yield put(-value)
    if base_of(node) == "neg":
        yield _kept(section, number, node["args"][0])
    if base_of(node) == "add":
        yield {**node, "op": node["op"].replace("aten.add.", "aten.sub.")}


def constant(section: Section, number: int) -> Iterator[Node]:
    """A constant a little larger or smaller."""
    for value, put in _floats(section.nodes[number]):
        if abs(value) >= EPS_LIMIT:
            for step in CONSTANT_STEPS:
                yield put(value * step)


def dropped_term(section: Section, number: int) -> Iterator[Node]:
    """One operand instead of the operation: a summand, factor, bias, mask, activation or norm left out."""
    node = section.nodes[number]
    if "call" in node or node["op"] in {"getitem", "literal"}:
        return
    out = section.metas[section.first + number]
    for argument in node["args"]:
        if is_reference(argument) and section.metas[argument["ref"]] == out:
            yield _kept(section, number, argument)
    if base_of(node) in {"linear", "scaled_dot_product_attention", "layer_norm"}:
        for position, argument in enumerate(node["args"]):
            if position >= 2 and is_reference(argument):
                yield changed_args(node, position, None)
    for name in node.get("kwargs", {}):
        if name in {"scale", "attn_mask", "bias", "approximate"}:
            yield {**node, "kwargs": {k: v for k, v in node["kwargs"].items() if k != name}}


def _kept(section: Section, number: int, argument: Any) -> Node:
    """The value itself instead of the node's result, unchanged."""
    node = section.nodes[number]
    if "out" in node:
        return {"op": "aten.clone.default", "args": [argument], "kwargs": {}, "out": node["out"]}
    return {"op": "aten.mul.Tensor", "args": [argument, 1.0]}


def wrong_axis(section: Section, number: int) -> Iterator[Node]:
    """Another axis."""
    node = section.nodes[number]
    for position in AXES.get(base_of(node), ()):
        value = node["args"][position] if position < len(node["args"]) else None
        axis = value[0] if isinstance(value, list) and len(value) == 1 else value
        if type(axis) is int:
            for other in (axis - 1, axis + 1):
                yield changed_args(node, position, [other] if isinstance(value, list) else other)


def eps_moved(section: Section, number: int) -> Iterator[Node]:
    """An epsilon ten times larger or smaller, or none at all."""
    for value, put in _floats(section.nodes[number]):
        if 0 < abs(value) < EPS_LIMIT:
            for factor in (10.0, 0.1, 0.0):
                yield put(value * factor)


def dtype(section: Section, number: int) -> Iterator[Node]:
    """Another dtype of the result."""
    node = section.nodes[number]
    for word in ("float16", "float32", "bfloat16", "bool", "int64"):
        other = _with_dtype(node["args"], word), _with_dtype(node.get("kwargs", {}), word)
        if other != (node["args"], node.get("kwargs", {})):
            changed: Node = {**node, "args": other[0]}
            yield {**changed, "kwargs": other[1]} if "kwargs" in node else changed


def _with_dtype(value: Any, word: str) -> Any:
    if isinstance(value, dict) and set(value) == {"dtype"} and isinstance(value["dtype"], str):
        return {"dtype": word}
    if isinstance(value, dict):
        return {k: _with_dtype(v, word) for k, v in value.items()}
    return [_with_dtype(v, word) for v in value] if isinstance(value, list) else value


def off_by_one(section: Section, number: int) -> Iterator[Node]:
    """A whole number one larger or smaller."""
    node = section.nodes[number]
    for position in COUNTS.get(base_of(node), ()):
        value = node["args"][position] if position < len(node["args"]) else None
        if type(value) is int:
            yield changed_args(node, position, value + 1)
            yield changed_args(node, position, value - 1)


def operand_swap(section: Section, number: int) -> Iterator[Node]:
    """Two operands exchanged."""
    node = section.nodes[number]
    args = node["args"]
    if base_of(node) == "cat" and isinstance(args[0], list):
        yield changed_args(node, 0, args[0][::-1])
    if base_of(node) not in ORDERED:
        return
    for one in range(len(args) - 1):
        if isinstance(args[one], dict) and isinstance(args[one + 1], dict):
            yield changed_args(changed_args(node, one, args[one + 1]), one + 1, args[one])


def op_swap(section: Section, number: int) -> Iterator[Node]:
    """An operator taken for another."""
    node = section.nodes[number]
    base = base_of(node)
    for other in SWAPS.get(base, ()):
        yield {**node, "op": node["op"].replace(f"aten.{base}.", f"aten.{other}.")}
    if base == "gelu":
        kwargs = node.get("kwargs", {})
        kind = "none" if kwargs.get("approximate") == "tanh" else "tanh"
        yield {**node, "kwargs": {**kwargs, "approximate": kind}}


def slice_bounds(section: Section, number: int) -> Iterator[Node]:
    """A slice moved by one, or another part of what was chunked, split or padded."""
    node = section.nodes[number]
    base, args = base_of(node), node["args"]
    if base == "slice" and len(args) >= 4 and type(args[2]) is int and type(args[3]) is int:
        for step in (1, -1):
            yield changed_args(changed_args(node, 2, args[2] + step), 3, args[3] + step)
    if base in {"pad", "constant_pad_nd"} and isinstance(args[1], list) and len(args[1]) == 2:
        yield changed_args(node, 1, args[1][::-1])
        yield changed_args(node, 1, [args[1][0] + 1, args[1][1] - 1])


def wrong_value(section: Section, number: int) -> Iterator[Node]:
    """Another earlier value of the same dtype and shape: another weight, residual, half or table."""
    node = section.nodes[number]
    for position, argument in enumerate(node["args"]):
        if is_reference(argument):
            for other in section.earlier_like(argument["ref"], number)[-3:]:
                yield changed_args(node, position, {"ref": other})
    if "call" in node:
        yield {**node, "parameters": [*node["parameters"][1:], node["parameters"][0]]}
        for one in range(len(node["parameters"]) - 2):
            swapped = list(node["parameters"])
            swapped[one], swapped[one + 2] = swapped[one + 2], swapped[one]
            yield {**node, "parameters": swapped}


MISTAKES: dict[str, Mistake] = {
    "sign": sign,
    "constant": constant,
    "dropped term": dropped_term,
    "wrong axis": wrong_axis,
    "eps moved": eps_moved,
    "dtype": dtype,
    "off by one": off_by_one,
    "operand swap": operand_swap,
    "op swap": op_swap,
    "slice bounds": slice_bounds,
    "wrong value": wrong_value,
}
"""Kind → the mistakes of that kind at one node."""
