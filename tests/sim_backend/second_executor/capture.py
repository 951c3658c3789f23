"""Takes the ATen graph that AOT gives with the device's decompositions; runs it compiled, every result visible."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from second_executor.interpreter import Difference, SecondExecutor
from second_executor.operations import HALF, VIEWS
from torch import Tensor
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx import GraphModule, Node

from sim_backend.compiler.decompositions import decomposition_table
from sim_backend.compiler.dynamo import compile_graph
from sim_backend.compiler.session import Session
from sim_backend.compiler.swap import compiling
from sim_backend.device import ext
from sim_backend.numerics import decode
from sim_backend.profiles import active


class Captured(NamedTuple):
    """An ATen graph and the device tensors it was called with."""

    graph: GraphModule
    inputs: list[Tensor]


def capture(function: Callable[..., Any], *device: Tensor) -> Captured:
    """The graph of `function` for the device tensors `device`; nothing is computed."""
    graphs: list[GraphModule] = []
    inputs: list[Tensor] = []

    def keep(graph: GraphModule, example: Any) -> Callable[..., Any]:
        graphs.append(graph)

        def nothing(*args: Tensor) -> list[Tensor]:
            inputs.extend(args)
            outputs = next(iter(graph.graph.find_nodes(op="output"))).args[0]
            return [_empty(n.meta["val"]) for n in outputs]

        return nothing

    def backend(gm: GraphModule, example: Any) -> Any:
        with compiling(Session(active())):
            return aot_module_simplified(gm, example, keep, decompositions=decomposition_table(active()))

    with torch.no_grad():
        torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(*device)
    return Captured(graphs[0], inputs)


def _empty(like: Tensor) -> Tensor:
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)


def compare(captured: Captured) -> list[Difference]:
    """The difference of each operation of the graph, compiled, on the inputs the compiled graph gave it."""
    visible, nodes = _with_every_result(captured.graph)
    with torch.no_grad():
        results = compile_graph(visible, captured.inputs)(*captured.inputs)
    given = {n.name: values_of(r) for n, r in zip(nodes, results, strict=True)}
    executor = SecondExecutor(captured.graph, active(), given)
    executor.run(*map(values_of, captured.inputs))
    return executor.differences


def values_of(t: Tensor) -> Tensor:
    """What a device tensor holds, DL16 decoded."""
    if t.device.type != "spyre":
        return t.clone()
    alias = ext.cpu_alias(t).clone()
    return decode(alias) if t.dtype in HALF else alias


def _with_every_result(graph: GraphModule) -> tuple[GraphModule, list[Node]]:
    nodes = [n for n in graph.graph.nodes if _computes(n)]
    copy: dict[Node, Node] = {}
    wide = torch.fx.Graph()
    wide.graph_copy(graph.graph, copy)
    wide.output(tuple(copy[n] for n in nodes))
    return GraphModule(graph, wide), nodes


def _computes(n: Node) -> bool:
    """True for results with memory of their own: views and unused parts are left out."""
    if n.op != "call_function" or not isinstance(n.meta["val"], Tensor) or not n.users:
        return False
    if n.target is operator.getitem:
        source = n.args[0]
        return isinstance(source, Node) and source.target.overloadpacket not in VIEWS
    return n.target.overloadpacket not in VIEWS
