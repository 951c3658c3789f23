"""Defect rules on FX nodes: facts of a call, the verdict on it, and wrong results put in the place of right ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch._inductor import ir
from torch.fx import Graph, Node, map_arg

from sim_backend.compiler.context import context_of
from sim_backend.compiler.ir import NativeCall
from sim_backend.compiler.origins import VIEWS, origin_of, pick_origin
from sim_backend.compiler.session import Refusal, Session
from sim_backend.errata.process import BUNDLE_ABORT, bundle_problem
from sim_backend.errata.rule import Call, Evaluation, Operand, Triggered, Unimplemented, Within, Wrong
from sim_backend.errata.table import has_rules, judge, name_of

_WRONG = "spyre_wrong"
_WITHIN = "spyre_within"
_UNIMPLEMENTED = "spyre_unimplemented"
_KEPT = "spyre_kept"  # its lowered value is an input of a defect further on
VERDICT = (_WRONG, _WITHIN, _UNIMPLEMENTED, _KEPT, "should_fallback")  # what the checks leave in a node's `meta`
_POINTWISE = frozenset(["aten.add", "aten.sub", "aten.mul", "aten.div", "aten.neg", "prims.convert_element_type"])


class Operations(NamedTuple):
    """How many operations a graph has, and their packets in alphabetical order."""

    size: int
    packets: tuple[str, ...]


_operations: WeakKeyDictionary[Graph, Operations] = WeakKeyDictionary()
_kept: WeakKeyDictionary[Node, Any] = WeakKeyDictionary()


def meet_defects(session: Session, node: Node, falls_back: bool = False) -> None:
    """Ask every rule about `node` and note the outcome; wrong results are left on the node for its lowering."""
    if not has_rules(session.profile, str(node.target), falls_back):
        return
    verdict = judge(session.profile, call_of(node), falls_back)
    session.evaluations[node.name] = tuple(verdict.evaluations)
    for found in verdict.triggered:
        session.meet(found, origin_of(node))
        _leave(session, node, found)


def meet_input(session: Session, node: Node) -> None:
    """Ask about a graph input, as a call "spyre.graph_input" with itself as the only operand (E-31)."""
    value, op = node.meta.get("val"), "spyre.graph_input"
    if not isinstance(value, torch.Tensor) or not has_rules(session.profile, op):
        return
    operand = operand_of(value, True)
    verdict = judge(session.profile, Call(op, op, (operand,), {}, (operand,), operand, "compiled", True))
    session.evaluations[node.name] = tuple(verdict.evaluations)
    for found in verdict.triggered:
        session.meet(found, origin_of(next(iter(node.users), None)))


def _leave(session: Session, node: Node, found: Triggered) -> None:
    effect = found.rule.effect
    if isinstance(effect, Wrong):
        for path in effect.reaches:
            _reached(node, path).meta[_KEPT] = True
        node.meta.setdefault(_WRONG, []).append((found, effect.parameters(session.profile, found.rule.erratum)))
    elif isinstance(effect, Within):
        node.meta.setdefault(_WITHIN, {})[found.rule.erratum] = effect.parameters(session.profile, found.call)
    elif isinstance(effect, Unimplemented):
        node.meta[_UNIMPLEMENTED] = found.rule.erratum


def unimplemented_erratum(node: Node | None) -> str | None:
    """The erratum by which the operation of `node` is unimplemented."""
    found: str | None = None if node is None else node.meta.get(_UNIMPLEMENTED)
    return found


def within(node: Node) -> dict[str, Any]:
    """Erratum -> parameters of the defects that the native operation of `node` has inside."""
    found: dict[str, Any] = node.meta.get(_WITHIN, {})
    return found


def call_of(node: Node) -> Call:
    """The facts of the call that `node` makes."""
    operands: list[Operand] = []

    def described(argument: Node) -> Operand | torch.SymInt | None:
        value = argument.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return value if isinstance(value, torch.SymInt) else None
        operands.append(_operand_at(argument, value))
        return operands[-1]

    args, kwargs = map_arg((node.args, dict(node.kwargs)), described)
    result = node.meta.get("val")
    return Call(
        op=str(node.target),
        original=str(node.meta.get("original_aten") or node.target),
        args=tuple(args),
        kwargs=dict(kwargs),
        operands=tuple(operands),
        result=operand_of(result, False) if isinstance(result, torch.Tensor) else None,
        form="compiled",
        fused=operations_of(node.graph).size > 1,
        context=context_of(node),
        beside=operations_of(node.graph).packets,
        read_by=_readers(node),
    )


def operand_of(value: torch.Tensor, graph_input: bool, made_by: tuple[str, ...] = ()) -> Operand:
    """The facts of a tensor, real or fake."""
    return Operand(
        shape=tuple(int(n) for n in value.shape),
        stride=tuple(int(n) for n in value.stride()),
        offset=int(value.storage_offset()),
        dtype=value.dtype,
        extent=int(value.untyped_storage().nbytes()) // value.dtype.itemsize,
        graph_input=graph_input,
        made_by=made_by,
    )


def _operand_at(node: Node, value: torch.Tensor) -> Operand:
    """The facts of `node`, with the views that lead to it from its buffer."""
    makers = _makers(node)
    views: list[str] = []
    while _is_view(node) and node.all_input_nodes:
        views.append(f"aten.{node.target.overloadpacket.__name__}")  # type: ignore[union-attr]
        node = node.all_input_nodes[0]
    base = node.meta.get("val")
    return replace(
        operand_of(value, node.op in ("placeholder", "get_attr"), makers),
        views=tuple(reversed(views)),
        base=tuple(int(n) for n in base.shape) if isinstance(base, torch.Tensor) else (),
    )


def _is_view(node: Node) -> bool:
    target = node.target
    is_named = isinstance(target, torch._ops.OpOverload) and target.overloadpacket.__name__ in VIEWS - {"clone"}
    return node.op == "call_function" and is_named


def operations_of(graph: Graph) -> Operations:
    """What `graph` computes, without views. Cached, for every node with a rule asks."""
    found: Operations | None = _operations.get(graph)
    if found is None:
        packets = [_packet(n) for n in graph.nodes if n.op == "call_function" and not _is_view(n)]
        found = _operations[graph] = Operations(len(packets), tuple(sorted(set(packets))))
    return found


def _makers(node: Node) -> tuple[str, ...]:
    makers: list[str] = []
    while node.op == "call_function" and len(makers) < 3:
        makers.append(_packet(node))
        if not node.all_input_nodes:
            break
        node = node.all_input_nodes[0]
    return tuple(makers)


def _readers(node: Node) -> tuple[str, ...]:
    readers: set[str] = set()
    waiting, seen = list(node.users), set(node.users)
    while waiting:
        user = waiting.pop()
        if _packet(user) not in _POINTWISE and not _is_view(user):
            readers.add(_packet(user))
            continue
        waiting.extend(u for u in user.users if u not in seen)
        seen.update(user.users)
    return tuple(sorted(readers))


def _packet(node: Node) -> str:
    return "output" if node.op == "output" else str(getattr(node.target, "overloadpacket", node.target))


# --- lowering
def replacing(call_function: Callable[..., Any]) -> Callable[..., Any]:
    """GraphLowering.call_function, whose results are replaced where a defect makes them wrong."""

    @functools.wraps(call_function)
    def call(graph: Any, target: Any, args: Any, kwargs: Any) -> Any:
        result = call_function(graph, target, args, kwargs)
        defects = graph.current_node.meta.get(_WRONG, ())
        inputs = [v for v in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(v, ir.TensorBox)]
        for found, parameters in defects:
            reached = [_kept[_reached(graph.current_node, path)] for path in found.rule.effect.reaches]
            result = _replaced(result, [*inputs, *reached], found, parameters)
        if graph.current_node.meta.get(_KEPT):
            _kept[graph.current_node] = result
        return result

    return call


def _replaced(result: Any, inputs: list[ir.TensorBox], found: Triggered, parameters: dict[str, Any]) -> Any:
    if isinstance(result, tuple | list):
        return (_replaced(result[0], inputs, found, parameters), *result[1:])
    assert isinstance(found.rule.effect, Wrong)
    constants = {"function": name_of(found.rule.effect.function), "call": found.call, "parameters": parameters}
    return NativeCall.create("wrong", result.get_size(), [result, *inputs], constants)


def judge_bundle(session: Session, name: str, nodes: int, origins: Iterable[Any]) -> list[Evaluation]:
    """E-55: ask whether the bundle `name` of so many device operations is too long, and meet it if so."""
    if not session.profile.has("E-55"):
        return []
    problem = bundle_problem(session.profile, nodes)
    if problem is not None:
        origin = origin_of(pick_origin(origins))
        session.refuse(Refusal(BUNDLE_ABORT.kind, problem, origin, "E-55", at_call=True, effect=BUNDLE_ABORT))
    return [Evaluation("E-55", problem is not None, name, problem or "")]


def reads_beyond(node: Node, judged: Node) -> bool:
    """True if a defect found on `judged`, a copy of `node`, reads what is no operation of the graph of `node`."""
    paths = [path for found, _ in judged.meta.get(_WRONG, ()) for path in found.rule.effect.reaches]
    return any(_is_beyond(node, path) for path in paths)


def _is_beyond(node: Any, path: tuple[int, ...]) -> bool:
    for position in path:
        if node.op != "call_function":
            return True
        node = node.args[position]
    return bool(node.op != "call_function")


def _reached(node: Any, path: tuple[int, ...]) -> Node:
    for position in path:
        node = node.args[position]
    assert isinstance(node, Node)
    return node


def evaluations_of(session: Session, origins: Iterable[Any]) -> tuple[Evaluation, ...]:
    """What was asked about the FX nodes among `origins`; each is given out once."""
    return session.take_evaluations(n.name for n in sorted(o for o in origins if isinstance(o, Node)))
