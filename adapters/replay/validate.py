"""Is this document one that may be built? Every rule, before anything of it becomes an operator or a tensor."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ..digests import digest_of
from . import limits
from .arguments import references_of
from .errors import DocumentRefused
from .fake_run import DEVICE, HOST, Section, Value, fake
from .frame import check_frame, meta, metas
from .operators import (
    MATRIX,
    MOVES,
    ON_HOST,
    PURE,
    SOFTMAX,
    SURGERY,
    VIEWS,
    WHOLE_NUMBERS_ON_HOST,
    WHOLE_NUMBERS_ONLY,
)


@dataclass(frozen=True)
class Facts:
    """What a valid document is made of, for evidence. `host` and `outside` count operators that compute something:
    on the host, and on the device outside blocks."""

    digest: str
    nodes: int
    graphs: int
    calls: int
    constants: int
    host: dict[str, int]
    outside: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def document_digest(document: Mapping[str, Any]) -> str:
    """sha256 over the canonical JSON of a document."""
    return digest_of(document)


def validate_model(document: Any, stock: Mapping[str, Tensor], *, placed: bool = True) -> None:
    """Raises DocumentRefused unless every rule holds; `stock` are the stock model's tensors by name (meta will do).

    `placed` documents run on the device: blocks there, on the host only what `ON_HOST` lists. The stock model's own
    document is not placed.
    """
    examine(document, stock, placed=placed)


def examine(document: Any, stock: Mapping[str, Tensor], *, placed: bool = True) -> Facts:
    """As `validate_model`, and says what the document is made of."""
    return Examiner(stock).examine(document, placed=placed)


class Examiner:
    """Examines documents of one model. What several have in common, by its text, is run on fake tensors once."""

    def __init__(self, stock: Mapping[str, Tensor]) -> None:
        self._stock = stock
        self._mode = FakeTensorMode()
        self._constants: dict[str, list[Value]] = {}
        self._graphs: dict[tuple[str, str], _Graph] = {}

    def examine(self, document: Any, *, placed: bool = True) -> Facts:
        """As the function of that name."""
        check_frame(document)
        with self._mode, torch.no_grad():
            constants = self._constants_of(document)
            graphs = [self._graph(n, g, DEVICE if placed else HOST) for n, g in enumerate(document["graphs"])]
            skeleton = _run_skeleton(document, constants, graphs, placed)
        _check_output(document, skeleton)
        if placed:
            _check_host(document, skeleton)
            _check_dtype(document)
            _check_width(document, skeleton)
        return _facts(document, skeleton)

    def _constants_of(self, document: dict[str, Any]) -> list[Value]:
        text = json.dumps(document["constants"], sort_keys=True)
        if text not in self._constants:
            self._constants[text] = _run_constants(document, self._stock)
        return self._constants[text]

    def _graph(self, number: int, graph: dict[str, Any], place: str) -> _Graph:
        key = (json.dumps(graph, sort_keys=True), place)
        if key not in self._graphs:
            self._graphs[key] = _run_graph(number, graph, place)
        return self._graphs[key]


def _run_constants(document: dict[str, Any], stock: Mapping[str, Tensor]) -> list[Value]:
    section = document["constants"]
    total = sum(t.numel() * t.element_size() for t in stock.values())
    for entry in section["stock"]:
        found = stock.get(entry["name"])
        if found is None:
            raise DocumentRefused(f"the stock model has no tensor {entry['name'][:80]!r}", "constants")
        if meta(entry["out"]) != (str(found.dtype).removeprefix("torch."), tuple(found.shape)):
            raise DocumentRefused(f"{entry['name']!r} is not {entry['out']}", "constants")
    values = [Value(fake(entry["out"]), HOST) for entry in section["stock"]]
    limit = limits.CONSTANT_FACTOR * total + limits.CONSTANT_BYTES
    run = Section("constants", SURGERY, values, byte_limit=limit)
    run.run(section["nodes"])
    found = [run.value(_reference(v)) for v in section["values"]]
    if any(not isinstance(v.tensor, Tensor) for v in found):
        raise DocumentRefused("a constant must be one tensor", "constants")
    return found


def _reference(value: Any) -> Any:
    if not isinstance(value, dict) or set(value) != {"ref"}:
        raise DocumentRefused(f"{str(value)[:40]} is not a reference")
    return value["ref"]


@dataclass(frozen=True)
class _Graph:
    inputs: list[Any]
    parameters: list[Any]
    outputs: list[Tensor]
    used: frozenset[int]
    """Numbers of the inputs that something reads: a block may be handed what it never looks at."""


def _run_graph(number: int, graph: dict[str, Any], place: str) -> _Graph:
    values = [Value(fake(m), place) for m in (*graph["inputs"], *graph["parameters"])]
    run = Section(f"graph {number}", PURE, values)
    run.run(graph["nodes"])
    if any(found != place for _, found in run.seen):
        raise DocumentRefused(f"a block works on the {'host' if place == DEVICE else 'device'}", run.where)
    outputs = [run.value(_reference(v)).tensor for v in graph["outputs"]]
    if not outputs or any(not isinstance(t, Tensor) for t in outputs):
        raise DocumentRefused("a block must return tensors", run.where)
    inputs, parameters = ([meta(m) for m in graph[k]] for k in ("inputs", "parameters"))
    read = {r for node in graph["nodes"] for r in references_of(node)} | {o["ref"] for o in graph["outputs"]}
    return _Graph(inputs, parameters, outputs, frozenset(read))


def _run_skeleton(document: dict[str, Any], constants: list[Value], graphs: list[_Graph], placed: bool) -> Section:
    case = document["case"]
    for entry in document["inputs"]:
        if meta(entry["out"]) != ("int64", (case["batch"], case["length"])):
            raise DocumentRefused(f"input {entry['name'][:40]!r} is not the case's", "skeleton")
    values = [Value(fake(entry["out"]), HOST) for entry in document["inputs"]]
    values += [_picked(constants, n) for n in document["skeleton"]["parameters"]]
    place = DEVICE if placed else HOST

    def call(node: dict[str, Any], section: Section) -> Value:
        if set(node) != {"call", "parameters", "args", "out"} or not isinstance(node["args"], list):
            raise DocumentRefused("a call has exactly the keys call, parameters, args and out")
        graph = _picked(graphs, node["call"])
        given = [section.value(_reference(a)) for a in node["args"]]
        held = [_picked(constants, n) for n in node["parameters"]]
        if [_meta(v) for v in given] != graph.inputs or [_meta(v) for v in held] != graph.parameters:
            raise DocumentRefused(f"the arguments are not those of graph {node['call']}")
        read = [v for n, v in enumerate((*given, *held)) if n in graph.used]
        if any(v.place != place for v in read if v.tensor.ndim):
            raise DocumentRefused("a block reads a tensor of the host")
        section.seen.append(("call", place))
        return Value(list(graph.outputs), place)

    run = Section("skeleton", PURE, values)
    run.run(document["skeleton"]["nodes"], call)
    calls = sum(op == "call" for op, _ in run.seen)
    if not 0 < calls <= limits.MAX_CALLS:
        raise DocumentRefused(f"{calls} calls of blocks", run.where)
    return run


def _picked(items: list[Any], number: Any) -> Any:
    if type(number) is not int or not 0 <= number < len(items):
        raise DocumentRefused(f"number {str(number)[:20]} names nothing")
    return items[number]


def _meta(value: Value) -> tuple[str, tuple[int, ...]]:
    if not isinstance(value.tensor, Tensor):
        raise DocumentRefused("an argument is several tensors")
    return str(value.tensor.dtype).removeprefix("torch."), tuple(value.tensor.shape)


def _check_output(document: dict[str, Any], skeleton: Section) -> None:
    output = skeleton.value(_reference(document["output"]))
    case, found = document["case"], output.tensor
    if not isinstance(found, Tensor) or found.ndim != 3 or not found.is_floating_point():
        raise DocumentRefused("the output is not one float tensor of three dimensions", "output")
    if tuple(found.shape[:2]) != (case["batch"], case["length"]) or output.place != HOST:
        raise DocumentRefused(f"the output is {tuple(found.shape)} on {output.place}, not the case's", "output")


def _check_host(document: dict[str, Any], skeleton: Section) -> None:
    """Only listed operators run on the host, and hardly a matrix product outside blocks."""
    first = len(skeleton.values) - len(document["skeleton"]["nodes"])
    for number, node in enumerate(document["skeleton"]["nodes"]):
        name, value = node.get("op"), skeleton.values[first + number]
        if name in (None, "getitem") or value.place != HOST or name in MOVES:
            continue
        whole = isinstance(value.tensor, Tensor) and not value.tensor.is_floating_point()
        listed = name in ON_HOST and (whole or name not in WHOLE_NUMBERS_ONLY)
        if not listed and not (whole and name in WHOLE_NUMBERS_ON_HOST):
            raise DocumentRefused(f"{name} may not run on the host", f"skeleton, node {number}")
    matrix = sum(op in MATRIX and place == DEVICE for op, place in skeleton.seen)
    if matrix > limits.MATRIX_OUTSIDE:
        raise DocumentRefused(f"{matrix} matrix operators run outside blocks", "skeleton")


def _check_dtype(document: dict[str, Any]) -> None:
    """Blocks multiply matrices in the dtype that was asked for: a model that widens itself proves nothing."""
    wanted = document["case"]["dtype"]
    for number, graph in enumerate(document["graphs"]):
        for place, node in enumerate(graph["nodes"]):
            if node["op"] in MATRIX - SOFTMAX and node["out"][0] != wanted:
                reason = f"{node['op']} in {node['out'][0]} where the case runs in {wanted}"
                raise DocumentRefused(reason, f"graph {number}, node {place}")


def _check_width(document: dict[str, Any], skeleton: Section) -> None:
    """No fp64 unless the case runs in it: no device computes in it, and host results are fp32."""
    wanted = "float64" if document["case"]["dtype"] == "float64" else "float32"
    found = str(skeleton.value(_reference(document["output"])).tensor.dtype).removeprefix("torch.")
    if found != wanted:
        raise DocumentRefused(f"the output is {found}, host results are {wanted}", "output")
    if wanted == "float32":
        for number, graph in enumerate(document["graphs"]):
            for place, node in enumerate(graph["nodes"]):
                if any(dtype == "float64" for dtype, _ in metas(node["out"])):
                    raise DocumentRefused(f"{node['op']} in float64", f"graph {number}, node {place}")


def check_case(document: Mapping[str, Any], batch: int, length: int, dtype: str) -> None:
    """Raises DocumentRefused unless the document is for this case: what was asked for is what must be answered."""
    if document.get("case") != {"batch": batch, "length": length, "dtype": dtype}:
        raise DocumentRefused(f"the document is for {str(document.get('case'))[:100]}, not {batch}x{length} {dtype}")


def _facts(document: dict[str, Any], skeleton: Section) -> Facts:
    working = [(op, place) for op, place in skeleton.seen if op not in VIEWS | MOVES]
    return Facts(
        digest=document_digest(document),
        nodes=sum(1 for _ in _nodes(document)),
        graphs=len(document["graphs"]),
        calls=sum(op == "call" for op, _ in skeleton.seen),
        constants=len(document["constants"]["values"]),
        host=dict(sorted(Counter(op for op, place in working if place == HOST and op != "call").items())),
        outside=dict(sorted(Counter(op for op, place in working if place == DEVICE and op != "call").items())),
    )


def _nodes(document: dict[str, Any]) -> Any:
    from .frame import all_nodes

    return all_nodes(document)
