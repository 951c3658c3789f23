"""Nested compile regions: a layer that occurs twelve times is traced, lowered and written once (design §5, graph form).

A region is no border on the device: all adjacent operations of one compiled graph are one bundle (facts 4.4). So every
rule is asked on the flat graph, with each call of a region in its place; calls of one region for which all answers are
equal then share one lowered body. The bundle's length (E-55) and its launch are those of the flat graph.

What cannot be kept apart this way raises `Inseparable`, and the flat graph is compiled instead.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from sim_backend.compiler.defects import VERDICT, reads_beyond
from sim_backend.compiler.origins import VIEWS
from sim_backend.compiler.program import BORDERS, Borders, Inseparable
from sim_backend.compiler.session import Session
from sim_backend.errata.rule import Evaluation

_CALL = torch.ops.higher_order.invoke_subgraph


def calls_in(graph: Graph) -> list[Node]:
    """The calls of regions."""
    return list(graph.find_nodes(op="call_function", target=_CALL))


def flattened(gm: GraphModule) -> tuple[Graph, dict[Node, dict[Node, Node]]]:
    """The graph with every region in the place of its call, and per call: node of the body -> its copy.

    Nodes outside regions are under the key of the graph's output node. Regions inside regions are taken in as well.
    """
    flat = Graph()
    output = next(iter(reversed(gm.graph.nodes)))
    copies: dict[Node, dict[Node, Node]] = {output: {}}
    held: dict[Node, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is _CALL:
            copies[node] = {}
            held[node] = _spliced(flat, _body(gm, node), _held(held, node), copies[node])
        else:
            held[node] = _copied(flat, gm, node, held, copies[output])
    return flat, copies


def _spliced(flat: Graph, body: GraphModule, operands: Sequence[Any], copies: dict[Node, Node]) -> Any:
    waiting, held = iter(operands), dict[Node, Any]()
    for node in body.graph.nodes:
        if node.op == "placeholder":
            held[node] = next(waiting)
        elif node.op == "output":
            return torch.fx.map_arg(node.args[0], held.__getitem__)
        elif node.op == "call_function" and node.target is _CALL:
            held[node] = _spliced(flat, _body(body, node), _held(held, node), {})
        else:
            held[node] = _copied(flat, body, node, held, copies)
    raise Inseparable("a body without an output")


def _copied(flat: Graph, gm: GraphModule, node: Node, held: dict[Node, Any], copies: dict[Node, Node]) -> Any:
    source = node.args[0] if node.args else None
    if node.target is operator.getitem and isinstance(source, Node) and isinstance(held[source], tuple | list):
        return held[source][node.args[1]]
    if node.op == "get_attr" and isinstance(getattr(gm, str(node.target), None), GraphModule):
        return None
    copy = copies[node] = flat.node_copy(node, held.__getitem__)
    return copy


def _body(gm: GraphModule, call: Node) -> GraphModule:
    body = getattr(gm, call.args[0].target)  # type: ignore[union-attr, arg-type]
    assert isinstance(body, GraphModule)
    return body


def _held(held: dict[Node, Any], call: Node) -> list[Any]:
    return [held[operand] if isinstance(operand, Node) else operand for operand in _operands(call)]


def _operands(call: Node) -> Sequence[Any]:
    return call.args[2:]


# --- sharing bodies
def share_bodies(session: Session, graph: Graph, copies: dict[Node, dict[Node, Node]]) -> None:
    """Put the verdicts on the flat copies back: calls whose verdicts are equal share one body, others get their own.

    Raises Inseparable.
    """
    if session.profile.ops_per_kernel:
        raise Inseparable("every operation is a kernel of its own")
    gm = graph.owning_module
    output = next(iter(reversed(graph.nodes)))
    asked, session.evaluations = session.evaluations, {}
    for node, copy in copies[output].items():
        _take_over(session, node, copy, asked)
    made: dict[str, list[tuple[Any, str]]] = {}
    for number, call in enumerate(calls_in(graph)):
        body = _body(gm, call)
        _check_separable(call, body, copies[call])
        verdicts = [_verdict(copy, asked) for copy in copies[call].values()]
        borders = _borders(call, body, output)
        shared = made.setdefault(str(call.args[0].target), [])  # type: ignore[union-attr]
        name = next((n for key, n in shared if key == (borders, verdicts)), None)
        if name is None:
            name = f"region_{number}"
            _add_body(session, gm, name, body, borders, copies[call], asked)
            shared.append(((borders, verdicts), name))
        _call_other(graph, call, name)


def _verdict(copy: Node, asked: dict[str, tuple[Evaluation, ...]]) -> tuple[Any, ...]:
    return (*(copy.meta.get(key) for key in VERDICT), asked.get(copy.name, ()))


def _take_over(session: Session, node: Node, copy: Node, asked: dict[str, tuple[Evaluation, ...]]) -> None:
    node.meta.update({key: copy.meta[key] for key in VERDICT if key in copy.meta})
    if copy.name in asked:
        session.evaluations[node.name] = asked[copy.name]


def _check_separable(call: Node, body: GraphModule, copies: dict[Node, Node]) -> None:
    """Raises Inseparable where a border would hide from a rule what the flat graph shows it."""
    for node in body.graph.nodes:
        if node.op == "get_attr" or node.target is _CALL:
            raise Inseparable("a region with a constant or another region in it")
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            raise Inseparable(f"{node.target} writes")
        if node in copies and reads_beyond(node, copies[node]):
            raise Inseparable(f"a defect of {node.target} reads before the region")
    results = list(_results(body))
    if any(n.op == "placeholder" or _is_view(n) or _is_narrow(n) for n in results) or len({*results}) < len(results):
        raise Inseparable("a region that returns a view")
    if any(_is_view(n) or _is_narrow(n) for n in map(_maker, _operands(call)) if n.op == "call_function"):
        raise Inseparable("a region that is handed a view")


def _results(body: GraphModule) -> Iterator[Node]:
    output = next(iter(reversed(body.graph.nodes)))
    for value in output.args[0]:  # type: ignore[union-attr]
        if not isinstance(value, Node):
            raise Inseparable("a region that returns something else than tensors")
        yield value


def _maker(value: Any) -> Node:
    if not isinstance(value, Node):
        raise Inseparable("a region that is handed something else than tensors")
    return value


def _is_view(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.overloadpacket.__name__ in VIEWS - {"clone"}


def _is_narrow(node: Node) -> bool:
    """True for one element a row, which may be sparse."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape[-1] == 1


def _borders(call: Node, body: GraphModule, output: Node) -> Borders:
    inner = {i for i, operand in enumerate(_operands(call)) if operand.op == "call_function"}
    left = output.all_input_nodes
    leaving = {n.args[1] for n in call.users if n.target is operator.getitem and n in left}
    return Borders(frozenset(inner), frozenset(leaving))


def _add_body(
    session: Session, gm: Any, name: str, body: GraphModule, borders: Borders, copies: dict[Node, Node], asked: Any
) -> None:
    """A copy of `body` whose nodes have the verdicts of `copies`, and names of their own."""
    graph, held = Graph(), dict[Node, Node]()
    for node in body.graph.nodes:
        held[node] = graph.node_copy(node, held.__getitem__)
        held[node]._rename(f"{name}_{node.name}")
        if node in copies:
            _take_over(session, held[node], copies[node], asked)
    made = GraphModule(body, graph)
    made.meta = {**body.meta, BORDERS: borders}
    gm.add_submodule(name, made)


def _call_other(graph: Graph, call: Node, name: str) -> None:
    with graph.inserting_before(call):
        call.update_arg(0, graph.get_attr(name))
