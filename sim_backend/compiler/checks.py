"""The op table applied to the post-grad graph: refusals, fallbacks, and the defects decided by FX metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, Node

from sim_backend.compiler import device_ops, regions
from sim_backend.compiler.defects import meet_defects, meet_input
from sim_backend.compiler.identity import compile_identity
from sim_backend.compiler.origins import origin_of
from sim_backend.compiler.program import Program
from sim_backend.compiler.session import Refusal, RefusalKind, Session, current_session
from sim_backend.compiler.sticks import stick_of
from sim_backend.device.parts import part_of
from sim_backend.errata import operands as operand_rules
from sim_backend.profiles import split_op

aten = torch.ops.aten
device_ops.define()
_INDEXED = frozenset([
    "aten.index_put", "aten._unsafe_index_put", "aten.put", "aten.scatter", "aten.scatter_add", "aten.scatter_reduce",
    "aten.gather", "aten.take",
])  # fmt: skip
_TRANSPOSITIONS = (aten.t, aten.transpose, aten.permute)


class GraphChecks(CustomGraphPass):
    """Walks the graph once. `uuid` puts the profile's digest and our sources into every compile-cache key."""

    def __call__(self, graph: Graph) -> None:
        """Check every node on the device; of a graph with regions in its flat form, with the graph that calls them."""
        session = current_session()
        if not session.has_regions:
            check_graph(session, graph)
        elif regions.calls_in(graph):
            flat, copies = regions.flattened(graph.owning_module)
            check_graph(session, flat)
            regions.share_bodies(session, graph, copies)
            session.program = Program(flat)

    def uuid(self) -> str:
        """In the compile-cache key."""
        return compile_identity()


def check_graph(session: Session, graph: Graph) -> None:
    """Check every node on the device."""
    for node in graph.nodes:
        if node.op == "placeholder" and _on_device(node):
            meet_input(session, node)
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and _on_device(node):
            check_node(session, node)


def check_node(session: Session, node: Node) -> None:
    """Apply the op table and the metadata rules to one node."""
    name = str(node.target)
    cell = session.profile.cell(name, "compiled")
    original = str(node.meta.get("original_aten") or name)
    original_cell = session.profile.cell(original, "compiled") if original.startswith("aten.") else "R"
    if cell == "X" or original_cell == "X":
        _refuse(session, node, "unsupported_op", _missing(node, original if original_cell == "X" else name))
    else:
        falls_back = cell == "F"
        if part := part_of(name, cell, "compiled", _arguments(node)):
            if part.letter == "X":
                _refuse(session, node, "unsupported_op", part.thing)
            falls_back = part.letter == "F"
        if falls_back:
            node.meta["should_fallback"] = True
        meet_defects(session, node, falls_back=falls_back)
    if session.profile.ideal:
        return
    if not session.profile.transposes_anything and _keeps_stick(node):
        _refuse(session, node, "layout", "Transposition not changing the stick dimension")
    if rule := _RULES.get(getattr(node.target, "overloadpacket", None)):
        rule(session, node)


def _missing(node: Node, name: str) -> str:
    """The refused thing: a conversion; indexed writes and reads, for want of a layout of their result (facts 3.7)."""
    result = node.meta.get("val")
    if name == "aten._to_copy.default" and isinstance(result, torch.Tensor) and _values(node):
        return f"type conversion from {_values(node)[0].dtype} to {result.dtype}"
    if split_op(name)[0] not in _INDEXED or not isinstance(result, torch.Tensor):
        return name
    buffer = sum(n.op == "call_function" for n in node.graph.nodes if n < node)
    candidates = f"any of {max(len(_values(node)), 1)} candidate input layouts"
    size = [int(n) for n in result.shape]
    return f"buf{buffer} ({name}): no supported output layout found for {candidates}; output size={size}"


def _refuse(session: Session, node: Node, kind: RefusalKind, thing: str, erratum: str | None = None) -> None:
    session.refuse(Refusal(kind, thing, origin_of(node), erratum))


def _values(node: Node) -> list[torch.Tensor]:
    return [a.meta["val"] for a in node.args if isinstance(a, Node) and isinstance(a.meta.get("val"), torch.Tensor)]


def _arguments(node: Node) -> list[Any]:
    return [a.meta.get("val", a) if isinstance(a, Node) else a for a in node.args]


def _on_device(node: Node) -> bool:
    value = node.meta.get("val")
    tensors = [v for v in (value if isinstance(value, tuple | list) else [value]) if isinstance(v, torch.Tensor)]
    return any(t.device.type == "spyre" for t in [*tensors, *_values(node)])


def _keeps_stick(node: Node) -> bool:
    """True for a transposition of a contiguous tensor whose last dimension stays the last."""
    if getattr(node.target, "overloadpacket", None) not in _TRANSPOSITIONS:
        return False
    (source, *_), result = _values(node), node.meta["val"]
    moved = [(n, s) for n, s in zip(result.shape, result.stride(), strict=True) if n > 1]
    return bool(moved) and source.is_contiguous() and not result.is_contiguous() and moved[-1][1] == 1


def _check_product(session: Session, node: Node) -> None:
    """Matrix products, and those of attention, compute on DL16 alone; fp32 is a defect of its own (E-65)."""
    dtype = _values(node)[0 if _is_attention(node) else -1].dtype
    problem = operand_rules.dtype_problem(session.profile, "batchmatmul", dtype)
    if problem is not None and dtype != torch.float32:
        _refuse(session, node, "unsupported_dtype", problem)


def _is_attention(node: Node) -> bool:
    return getattr(node.target, "overloadpacket", None) is aten._scaled_dot_product_fused_attention_overrideable


def _check_layer_norm(session: Session, node: Node) -> None:
    (x, *_), shape = _values(node), node.args[1]
    if isinstance(shape, list | tuple) and len(shape) != 1:
        _refuse(session, node, "unsupported_op", f"spyre.layernorm: unsupported reduction shape {list(shape)}")
    for opfunc in ("exx2", "layernormscale", "layernormnorm"):
        if problem := operand_rules.dtype_problem(session.profile, opfunc, x.dtype):
            _refuse(session, node, "unsupported_dtype", problem)


def _check_offset(session: Session, node: Node) -> None:
    """Compilation is for static shapes (facts 4.9): where a slice begins must be a constant of the graph."""
    symbolic = [a for a in node.args if isinstance(a, Node) and isinstance(a.meta.get("val"), torch.SymInt)]
    if symbolic and node.users:
        _refuse(session, node, "dynamic_shape", f"a symbolic offset in {node.target}")


def _check_copy(session: Session, node: Node) -> None:
    """A graph input copied to another as it is: a copy on the device, which the runtime of 2026-04 refuses."""
    source = node.args[1]
    is_copy = isinstance(source, Node) and source.op == "placeholder" and len(_values(node)) == 2
    on_card = is_copy and all(t.device.type == "spyre" for t in _values(node))
    if on_card and session.profile.copies_on_device == "refused":
        _refuse(session, node, "unsupported_op", "Error: In-device copy not implemented.")
    if session.profile.copies_on_device == "compiled" and isinstance(source, Node) and _begins_inside_stick(source):
        thing = "spyre::copy_from_d2d of a sliced view requires a stick-aligned storage_offset"
        _refuse(session, node, "layout", thing)


def _begins_inside_stick(view: Node) -> bool:
    """True for a slice on the device whose first element is not the first of a stick."""
    value = view.meta.get("val")
    if getattr(view.target, "overloadpacket", None) not in (aten.slice, aten.select):
        return False
    on_card = isinstance(value, torch.Tensor) and value.device.type == "spyre"
    return on_card and int(value.storage_offset()) % stick_of(value.dtype) != 0


def _check_layout(session: Session, node: Node) -> None:
    if problem := device_ops.layout_problem(node):
        _refuse(session, node, "layout", problem)


def _check_compact(session: Session, node: Node) -> None:
    if problem := device_ops.compact_problem(session.profile, node):
        _refuse(session, node, "unsupported_op", problem)


_RULES: dict[Any, Callable[[Session, Node], None]] = {
    aten.mm: _check_product,
    aten.addmm: _check_product,
    aten.bmm: _check_product,
    aten.baddbmm: _check_product,
    aten.native_layer_norm: _check_layer_norm,
    aten.slice: _check_offset,
    aten.select: _check_offset,
    torch.ops.spyre.require_layout: _check_layout,
    torch.ops.spyre.compact: _check_compact,
    aten.copy_: _check_copy,
    aten.copy: _check_copy,
    aten._scaled_dot_product_fused_attention_overrideable: _check_product,
}
