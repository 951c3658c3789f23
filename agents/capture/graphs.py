"""FX graphs of `torch.export`, normalised so that equal mathematics has equal text, and written as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind

from .calls import CALL
from .errors import CaptureRefused
from .writes import replace_write
from .written import meta_of, written

IDENTITIES = frozenset(
    {
        "aten.alias.default",
        "aten.detach.default",
        "aten.detach_.default",
        "aten.lift_fresh.default",
        "aten.lift_fresh_copy.default",
    }
)
"""Operators that return their first argument's values; the copy among them is of a literal nobody writes to."""

ALIASES = {
    torch.ops.aten.absolute.default: torch.ops.aten.abs.default,
    torch.ops.aten.clip.default: torch.ops.aten.clamp.default,
    torch.ops.aten.concat.default: torch.ops.aten.cat.default,
    torch.ops.aten.divide.Tensor: torch.ops.aten.div.Tensor,
    torch.ops.aten.multiply.Tensor: torch.ops.aten.mul.Tensor,
    torch.ops.aten.negative.default: torch.ops.aten.neg.default,
    torch.ops.aten.subtract.Tensor: torch.ops.aten.sub.Tensor,
}
"""Second names of operators: the same arguments, the same values."""

MARKS = frozenset({"aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_scalar.default"})
"""Operators that export adds and that compute nothing."""


class Exported(NamedTuple):
    """A normalised graph: tensor inputs first, then the tensors of the model it reads, with those tensors."""

    graph: fx.Graph
    inputs: list[fx.Node]
    parameters: list[fx.Node]
    tensors: list[Tensor]


def export(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Exported:
    """Exports on fake tensors under no_grad and normalises. Raises CaptureRefused with export's own reason."""
    try:
        with torch.no_grad():
            program = torch.export.export(module, args, kwargs, strict=False)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise CaptureRefused(f"the patched model cannot be exported: {type(error).__name__}: {first[:600]}") from error
    return _split(program)


def _split(program: Any) -> Exported:
    graph: fx.Graph = program.graph
    normalise(graph)
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    inputs, parameters, tensors = [], [], []
    held = {**program.state_dict, **program.constants}
    for spec in program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind is InputKind.USER_INPUT:
            if "val" in node.meta and isinstance(node.meta["val"], Tensor):
                inputs.append(node)
        elif node.users:
            parameters.append(node)
            tensors.append(held[spec.target])
    return Exported(graph, inputs, parameters, tensors)


def normalise(graph: fx.Graph) -> None:
    """Drops what computes nothing, makes in-place operators functional, then removes dead nodes."""
    for node in list(graph.nodes):
        if node.op == "call_function":
            _normalise_node(graph, node)
    graph.eliminate_dead_code()


def _normalise_node(graph: fx.Graph, node: fx.Node) -> None:
    node.target = ALIASES.get(node.target, node.target)  # type: ignore[call-overload, arg-type]
    name = str(node.target)
    if name in MARKS or node.target is torch._C._set_grad_enabled:
        graph.erase_node(node)
    elif name in IDENTITIES or _is_inference_dropout(node, name) or _is_whole_slice(node, name):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
    elif isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
        replace_write(graph, node)


def _is_inference_dropout(node: fx.Node, name: str) -> bool:
    return name == "aten.dropout.default" and (node.args[2] is False or node.args[1] == 0.0)


def _is_whole_slice(node: fx.Node, name: str) -> bool:
    """True for a slice over the full length: what stands where a table is exactly as long as the case."""
    if name != "aten.slice.Tensor":
        return False
    given: list[Any] = [*node.args, *(0, None, None, 1)[len(node.args) - 1 :]]
    source, dim, start, end, step = given
    size = source.meta["val"].shape[dim]
    return start in (None, 0) and step == 1 and (end is None or end >= size)


def write_graph(exported: Exported, call: Callable[[int], dict[str, Any]] | None = None) -> dict[str, Any]:
    """`inputs`, `parameters` (metas), `nodes`, `outputs` (references). Values are numbered in that order.

    `call` says for a site which graph it calls with which constants; without it a call is refused.
    """
    numbers: dict[fx.Node, int] = {}
    for node in (*exported.inputs, *exported.parameters):
        numbers[node] = len(numbers)
    nodes: list[dict[str, Any]] = []
    outputs: list[Any] = []

    def reference(node: fx.Node) -> dict[str, int]:
        if node not in numbers:
            raise CaptureRefused(f"{node.op} {node.target} cannot stand in a document")
        return {"ref": numbers[node]}

    for node in exported.graph.nodes:
        if node.op == "output":
            outputs = [written(v, reference, fx.Node) for v in node.args[0]]
        elif node.op != "placeholder":
            nodes.append(_written_node(node, reference, call))
            numbers[node] = len(numbers)
    return {
        "inputs": [meta_of(node.meta["val"]) for node in exported.inputs],
        "parameters": [meta_of(node.meta["val"]) for node in exported.parameters],
        "nodes": nodes,
        "outputs": outputs,
    }


def _written_node(
    node: fx.Node, reference: Callable[[Any], dict[str, int]], call: Callable[[int], dict[str, Any]] | None
) -> dict[str, Any]:
    out = _metas(node.meta.get("val"))
    if str(node.target) == CALL and call is not None:
        site, tensors = node.args
        return {**call(int(site)), "args": [written(t, reference, fx.Node) for t in tensors], "out": out}
    if node.op != "call_function":
        raise CaptureRefused(f"{node.op} {node.target} cannot stand in a document")
    name = "getitem" if getattr(node.target, "__name__", "") == "getitem" else str(node.target)
    args = [written(a, reference, fx.Node) for a in node.args]
    return {
        "op": name,
        "args": args,
        "kwargs": {k: written(v, reference, fx.Node) for k, v in node.kwargs.items()},
        "out": out,
    }


def _metas(value: Any) -> Any:
    if isinstance(value, Tensor):
        return meta_of(value)
    if isinstance(value, tuple | list) and all(isinstance(v, Tensor) for v in value):
        return [meta_of(v) for v in value]
    raise CaptureRefused(f"an operator returns a {type(value).__name__}: values may not decide what is computed")
