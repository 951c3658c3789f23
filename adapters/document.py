"""Operator documents: one element-wise module of one tensor, written as plain JSON and replayed without its code.

    {"version": 1,
     "nodes": [{"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"ref": 0}]},
               {"op": "aten.mul.Tensor", "args": [{"ref": 1}, {"ref": 0}]}],
     "output": {"ref": 2}}

Values are numbered: 0 is the input, k the value of the k-th node (from 1). A node may have `kwargs`. Arguments are
references to earlier values or scalar literals. A document is data: operators come from one dictionary, names and
types are checked against the operator's schema before anything is built, and a run on fake tensors must keep the
input's shape and dtype. So neither a name nor a literal can carry code.
"""

from __future__ import annotations

import json
import math
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from .digests import digest_of
from .document_ops import NAMES, OPERATORS, STRINGS
from .errors import DocumentRefused

VERSION = 1
MAX_NODES = 256
MAX_BYTES = 64 * 1024
MAX_FLOATS = 64
MAX_LITERAL = 1e6
MIN_LITERAL = 1e-12
CHECK_SHAPE = (2, 3, 4)
CHECK_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

_NUMBER_TYPES = {"number": (int, float), "Scalar": (int, float), "float": (int, float), "int": (int,), "bool": (bool,)}


def validate(document: Any) -> dict[str, Any]:
    """The document itself, if every rule holds. Raises DocumentRefused, which names the node and the reason."""
    _check_frame(document)
    for number, node in enumerate(document["nodes"], start=1):
        _check_node(node, number)
    _reference(document["output"], len(document["nodes"]) + 1, None)
    if document["output"]["ref"] == 0 and document["nodes"]:
        raise DocumentRefused("the output is the input although there are nodes")
    for dtype in CHECK_DTYPES:
        _check_run(document, dtype)
    return document


def build(document: Any) -> fx.GraphModule:
    """A module from one float tensor to one of the same shape and dtype; `torch.compile(fullgraph=True)` takes it.

    Raises DocumentRefused: every document is validated first.
    """
    return _assemble(validate(document))


def document_digest(document: dict[str, Any]) -> str:
    """sha256 over the canonical JSON of a document."""
    return digest_of(document)


def capture_module(module: nn.Module, example: torch.Tensor | None = None) -> dict[str, Any]:
    """The document of a module of one tensor, exported on fake tensors: no value of `example` is read.

    `example` gives shape and dtype (default: float32 of (2, 64, 128)). Raises DocumentRefused when the module has
    parameters, uses an operator outside the dictionary, or cannot be exported.
    """
    if any(True for _ in module.parameters()) or any(True for _ in module.buffers()):
        raise DocumentRefused(f"{type(module).__name__} has parameters or buffers")
    shape, dtype = ((2, 64, 128), torch.float32) if example is None else (tuple(example.shape), example.dtype)
    return validate(document_of_graph(_export(module, shape, dtype)))


def document_of_graph(graph: fx.Graph) -> dict[str, Any]:
    """The document of an FX graph of ATen overloads with one placeholder and one output, dead nodes left out."""
    graph.eliminate_dead_code()
    numbers: dict[fx.Node, int] = {}
    nodes: list[dict[str, Any]] = []
    output: Any = None
    for node in graph.nodes:
        if node.op == "output":
            output = _single_output(node)
        elif node.op == "placeholder":
            numbers[node] = _input_number(numbers)
        else:
            nodes.append(_node_document(node, numbers))
            numbers[node] = len(nodes)
    return {"version": VERSION, "nodes": nodes, "output": {"ref": numbers[output]}}


def _export(module: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> fx.Graph:
    with FakeTensorMode(), torch.no_grad():
        fake = torch.empty(shape, dtype=dtype)
        try:
            program = torch.export.export(module, (fake,), strict=False)
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            raise DocumentRefused(f"{type(module).__name__} cannot be exported: {error}") from error
    return program.graph


def _single_output(node: fx.Node) -> fx.Node:
    values = node.args[0] if isinstance(node.args[0], tuple | list) else (node.args[0],)
    if len(values) != 1 or not isinstance(values[0], fx.Node):
        raise DocumentRefused("the module does not return exactly one tensor")
    return values[0]


def _input_number(numbers: dict[fx.Node, int]) -> int:
    if numbers:
        raise DocumentRefused("the module reads more than one tensor")
    return 0


def _node_document(node: fx.Node, numbers: dict[fx.Node, int]) -> dict[str, Any]:
    if node.op != "call_function" or node.target not in NAMES:
        raise DocumentRefused(f"operator {node.target} is not allowed in a document", len(numbers))
    written: dict[str, Any] = {"op": NAMES[node.target], "args": [_written(a, numbers) for a in node.args]}
    if node.kwargs:
        written["kwargs"] = {k: _written(v, numbers) for k, v in node.kwargs.items()}
    return written


def _written(value: Any, numbers: dict[fx.Node, int]) -> Any:
    return {"ref": numbers[value]} if isinstance(value, fx.Node) else value


def _check_frame(document: Any) -> None:
    if not isinstance(document, dict) or set(document) != {"version", "nodes", "output"}:
        raise DocumentRefused("a document has exactly the keys version, nodes and output")
    if document["version"] is not VERSION and document["version"] != VERSION:
        raise DocumentRefused(f"version {document['version']!r} is not {VERSION}")
    if not isinstance(document["nodes"], list) or len(document["nodes"]) > MAX_NODES:
        raise DocumentRefused(f"nodes must be a list of at most {MAX_NODES}")
    if _size(document) > MAX_BYTES:
        raise DocumentRefused(f"the document is larger than {MAX_BYTES} bytes")
    if _floats(document["nodes"]) > MAX_FLOATS:
        raise DocumentRefused(f"the document has more than {MAX_FLOATS} float literals")


def _size(document: dict[str, Any]) -> int:
    try:
        return len(json.dumps(document))
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentRefused("the document is not plain JSON") from error


def _floats(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_floats(v) for v in value.values())
    if isinstance(value, list):
        return sum(_floats(v) for v in value)
    return int(isinstance(value, float))


def _check_node(node: Any, number: int) -> None:
    if not isinstance(node, dict) or not {"op", "args"} <= set(node) <= {"op", "args", "kwargs"}:
        raise DocumentRefused("a node has the keys op, args and perhaps kwargs", number)
    if not isinstance(node["op"], str) or node["op"] not in OPERATORS:
        raise DocumentRefused(f"operator {str(node['op'])[:80]!r} is not allowed in a document", number)
    args, kwargs = node["args"], node.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise DocumentRefused("args must be a list and kwargs an object", number)
    _check_arguments(OPERATORS[node["op"]], args, kwargs, number)


def _check_arguments(op: torch._ops.OpOverload, args: list[Any], kwargs: dict[str, Any], number: int) -> None:
    declared = list(op._schema.arguments)
    positional = [a for a in declared if not a.kwarg_only]
    if len(args) > len(positional):
        raise DocumentRefused(f"{op} takes at most {len(positional)} arguments", number)
    given = dict(zip((a.name for a in positional), args, strict=False))
    for name, value in kwargs.items():
        if name not in {a.name for a in declared} or name in given:
            raise DocumentRefused(f"{op} has no free argument {str(name)[:80]!r}", number)
        given[name] = value
    for argument in declared:
        if argument.name in given:
            _check_value(str(argument.type), given[argument.name], number, argument.name)
        elif not argument.has_default_value():
            raise DocumentRefused(f"{op} needs the argument {argument.name!r}", number)
    if not any(isinstance(v, dict) for v in given.values()):
        raise DocumentRefused(f"{op} reads no value", number)


def _check_value(declared: str, value: Any, number: int, name: str) -> None:
    kind = declared.removeprefix("Optional[").removesuffix("]")
    if value is None and kind != declared:
        return
    if kind == "Tensor":
        _check_tensor(value, number, name)
    elif kind == "str":
        if value not in STRINGS:
            raise DocumentRefused(f"argument {name!r} must be one of {sorted(STRINGS)}", number)
    else:
        _check_literal(value, _NUMBER_TYPES.get(kind, ()), number, name)


def _check_tensor(value: Any, number: int, name: str) -> None:
    if isinstance(value, dict):
        _reference(value, number, number)
    elif name in {"self", "input"}:
        raise DocumentRefused(f"argument {name!r} must be a reference", number)
    else:
        _check_literal(value, (int, float), number, name)


def _reference(value: Any, limit: int, number: int | None) -> int:
    if not isinstance(value, dict) or set(value) != {"ref"} or type(value["ref"]) is not int:
        raise DocumentRefused("a reference is an object with the one key ref and an integer", number)
    if not 0 <= value["ref"] < limit:
        raise DocumentRefused(f"reference {value['ref']} is not to an earlier value", number)
    return value["ref"]


def _check_literal(value: Any, types: tuple[type, ...], number: int, name: str) -> None:
    if type(value) not in types:
        raise DocumentRefused(f"argument {name!r} has the wrong type {type(value).__name__}", number)
    if type(value) is bool:
        return
    if not math.isfinite(value) or abs(value) > MAX_LITERAL or 0 < abs(value) < MIN_LITERAL:
        raise DocumentRefused(f"the literal {name!r} is not finite or outside {MIN_LITERAL} to {MAX_LITERAL}", number)


def _assemble(document: dict[str, Any]) -> fx.GraphModule:
    graph = fx.Graph()
    values = [graph.placeholder("x")]
    for node in document["nodes"]:
        args = tuple(_value(a, values) for a in node["args"])
        kwargs = {k: _value(v, values) for k, v in node.get("kwargs", {}).items()}
        values.append(graph.call_function(OPERATORS[node["op"]], args, kwargs))
    graph.output(values[document["output"]["ref"]])
    return fx.GraphModule(nn.Module(), graph, class_name="ReplayedDocument")


def _value(value: Any, values: list[fx.Node]) -> Any:
    return values[value["ref"]] if isinstance(value, dict) else value


def _check_run(document: dict[str, Any], dtype: torch.dtype) -> None:
    """Runs the document on fake tensors. Every value keeps the shape; values are of the input's dtype or masks."""
    with FakeTensorMode(), torch.no_grad():
        values: list[torch.Tensor] = [torch.empty(CHECK_SHAPE, dtype=dtype)]
        for number, node in enumerate(document["nodes"], start=1):
            values.append(_run_node(node, values, number))
            if tuple(values[-1].shape) != CHECK_SHAPE:
                raise DocumentRefused(f"the shape becomes {tuple(values[-1].shape)}", number)
            if values[-1].dtype not in (dtype, torch.bool):
                raise DocumentRefused(f"the dtype {dtype} becomes {values[-1].dtype}", number)
        if values[document["output"]["ref"]].dtype != dtype:
            raise DocumentRefused(f"the output is {values[document['output']['ref']].dtype}, not {dtype}")


def _run_node(node: dict[str, Any], values: list[torch.Tensor], number: int) -> torch.Tensor:
    args = [values[a["ref"]] if isinstance(a, dict) else a for a in node["args"]]
    kwargs = {k: values[v["ref"]] if isinstance(v, dict) else v for k, v in node.get("kwargs", {}).items()}
    try:
        return OPERATORS[node["op"]](*args, **kwargs)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DocumentRefused(f"{node['op']} cannot run: {error}", number) from error
