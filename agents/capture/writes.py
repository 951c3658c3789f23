"""Writes to memory that others read, made functional: what was written is put back into the memory and its views.

`y[..., i] = x` exports as a copy into a view of y. In place of it stands y with x scattered into it, and whoever reads
y or a view of it later reads that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .errors import CaptureRefused

_aten = torch.ops.aten

SCATTERS = {_aten.select.int: _aten.select_scatter.default, _aten.slice.Tensor: _aten.slice_scatter.default}
"""Views through which memory is written, with the operator that puts a value back where the view was taken."""

VIEWS = frozenset(
    {
        *SCATTERS,
        _aten.expand.default,
        _aten.permute.default,
        _aten.squeeze.dim,
        _aten.transpose.int,
        _aten.unsqueeze.default,
        _aten.view.default,
    }
)
"""Operators that always give the memory they read, never a copy of it: what they gave is read anew after a write."""


def replace_write(graph: fx.Graph, node: fx.Node) -> None:
    """Takes an in-place operator out of the graph. Raises CaptureRefused for a write that cannot be followed."""
    written: Any = node.args[0]
    if not isinstance(written, fx.Node):
        raise _refused(node)
    path = _path_to(node, written)
    base = path[-1].args[0] if path else written
    if not isinstance(base, fx.Node) or base.op == "placeholder":
        raise _refused(node)
    with graph.inserting_before(node):
        fresh = _value(graph, node, written)
        for view in path:
            source: Any = view.args[0]
            fresh = _call(graph, SCATTERS[view.target], (source, fresh, *view.args[1:]), source)  # type: ignore[index]
        renewed = _renewed(graph, node, base, fresh)
    _read_instead(graph, node, renewed)
    node.replace_all_uses_with(renewed[written])
    graph.erase_node(node)


def _path_to(node: fx.Node, written: fx.Node) -> list[fx.Node]:
    """The views from what is written back to the memory it lies in, innermost first."""
    path = []
    while is_view(written):
        if written.target not in SCATTERS:
            raise _refused(node)
        path.append(written)
        written = written.args[0]  # type: ignore[assignment]
    return path


def _value(graph: fx.Graph, node: fx.Node, written: fx.Node) -> fx.Node:
    """What stands in the written tensor afterwards, by the operator's counterpart that writes nothing."""
    if node.target is _aten.copy_.default:
        source = node.args[1]
        if not isinstance(source, fx.Node) or _like(source) != _like(written):
            raise _refused(node)
        return source
    functional = _functional(node.target)
    if functional is None:
        raise _refused(node)
    return _call(graph, functional, node.args, node, node.kwargs)


def _renewed(graph: fx.Graph, node: fx.Node, base: fx.Node, fresh: fx.Node) -> dict[fx.Node, fx.Node]:
    """The memory and every view taken of it so far, each with what it holds after the write."""
    renewed = {base: fresh}
    for view in list(graph.nodes):
        if view is node:
            break
        if view.target in VIEWS and view.args[0] in renewed:
            source = renewed[view.args[0]]
            renewed[view] = _call(graph, view.target, (source, *view.args[1:]), view, view.kwargs)
        elif is_view(view) and view.args[0] in renewed and _read_after(graph, node, view):
            raise _refused(node)
    return renewed


def _read_instead(graph: fx.Graph, node: fx.Node, renewed: dict[fx.Node, fx.Node]) -> None:
    """Whoever reads the memory or a view of it behind the write reads what stands there then."""
    place = {n: i for i, n in enumerate(graph.nodes)}
    for old, new in renewed.items():
        for user in list(old.users):
            if place[user] > place[node]:
                user.replace_input_with(old, new)


def _read_after(graph: fx.Graph, node: fx.Node, view: fx.Node) -> bool:
    place = {n: i for i, n in enumerate(graph.nodes)}
    return any(place[user] >= place[node] for user in view.users)


def _call(graph: fx.Graph, target: Any, args: Any, like: fx.Node, kwargs: Any = None) -> fx.Node:
    made = graph.call_function(target, args, kwargs or {})
    made.meta = like.meta
    return made


def _functional(target: Any) -> Any:
    """`aten.add_.Tensor` → `aten.add.Tensor`; None where there is no counterpart of that name and overload."""
    namespace, name, overload = str(target).split(".")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    return getattr(packet, overload, None) if name.endswith("_") else None


def is_view(node: fx.Node) -> bool:
    """True if the value may share memory with the node's first argument."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.op == "call_function"
    returns = node.target._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _like(node: fx.Node) -> tuple[Any, ...]:
    value = node.meta["val"]
    return tuple(value.shape), value.dtype, value.device


def _refused(node: fx.Node) -> CaptureRefused:
    return CaptureRefused(f"{node.target} writes to memory that others read; compute a new tensor instead")
