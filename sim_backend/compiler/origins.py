"""From an FX node back to the user's operation, source line and module."""

from __future__ import annotations

import operator
import re
from collections.abc import Container, Iterable, Iterator
from pathlib import PurePath
from typing import Any

import torch
from torch.fx import Node

from sim_backend.compiler.session import Origin

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LAYER = re.compile(r"(?<=\.)\d+(?=\.|$)")
VIEWS = frozenset([
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "slice",
    "select", "alias", "detach", "split", "split_with_sizes", "clone", "_reshape_alias", "as_strided", "unbind",
])  # fmt: skip
_RESIZING = frozenset(["view", "reshape", "_unsafe_view", "slice", "select"])


def origin_of(node: Node | None) -> Origin:
    """The origin of the FX `node`; an empty one for None."""
    if node is None:
        return Origin("unknown")
    values = list(_tensor_values(node.args))
    return Origin(
        op=operator_name(node),
        source=source_line(node.meta.get("stack_trace")),
        module=module_path(node.meta.get("nn_module_stack")),
        shapes=tuple(tuple(int(s) for s in v.shape) for v in values),
        dtypes=tuple(str(v.dtype).removeprefix("torch.") for v in values),
        scalars=tuple(a for a in node.args if isinstance(a, int | float | bool | str)),
        node=node,
    )


def operator_name(node: Node) -> str:
    """ "aten.gelu.default": the overload as it was before decomposition."""
    original = node.meta.get("original_aten")
    target = original if original is not None else node.target
    return str(target)


def source_line(stack_trace: str | None) -> str:
    """ "modeling_bert.py:345": the innermost frame that is not torch's own; "" if there is none."""
    frames = _FRAME.findall(stack_trace or "")
    ours = [f for f in frames if not is_framework_file(f[0])] or frames
    return f"{PurePath(ours[-1][0]).name}:{ours[-1][1]}" if ours else ""


def is_framework_file(path: str) -> bool:
    """True for files of torch itself."""
    parts = PurePath(path).parts
    return ("torch" in parts and "site-packages" in parts) or path.startswith("<")


def module_path(stack: dict[str, Any] | None) -> str:
    """ "attention.self": the module path of the last entry, relative to the compiled module, layer numbers as *."""
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    path = re.sub(r"\._modules\['([^']+)'\]", r".\1", path)
    path = re.sub(r"^L\['(self|mod|fn)'\]\.?|^L__self___?", "", path)
    return star_layers(re.sub(r"\[(\d+)\]", r".\1", path))


def star_layers(path: str) -> str:
    """`path` with layer numbers replaced by *."""
    return _LAYER.sub("*", re.sub(r"^\d+(?=\.|$)", "*", path))


def pick_origin(origins: Iterable[Node], wanted: Iterable[str] = ()) -> Node | None:
    """The origin whose operator's name holds one of `wanted` ("pow"), else the last one in graph order."""
    nodes = sorted(n for n in origins if n.op == "call_function")
    for node in nodes:
        name = f"{operator_name(node)} {node.target}"
        if any(w in name for w in wanted):
            return node
    return nodes[-1] if nodes else None


def splitting_view(node: Node | None, source: Node | None = None) -> Node | None:
    """The nearest view at or above `node` that changes the size of the last dimension; `node` itself if there is none.

    With `source`, only views between `node` and that node count: the operand that was read.
    """
    frontier, seen = [node] if node is not None else [], set()
    while frontier:
        at = frontier.pop(0)
        if at in seen or (source is not None and at is not node and not _comes_from(at, source)):
            continue
        seen.add(at)
        if _is_view(at) and _changes_last_dim(at):
            return at
        frontier.extend(i for i in at.all_input_nodes if at is node or _is_view(at))
    return node


def splits_stick(view: Node, eps: int) -> bool:
    """True for a view between two last dimensions of which one is no whole number of sticks, as heads of 32 lanes."""
    if not (_is_view(view) and _changes_last_dim(view)):
        return False
    (source, *_), result = view.all_input_nodes, view.meta["val"]
    return any(int(n) % eps for n in (source.meta["val"].shape[-1], result.shape[-1]))


def reads_assumed(node: Node | None, failed: Container[Node]) -> bool:
    """True if an operand of `node` comes, through views alone, from the result of an operation in `failed`."""
    frontier = [] if node is None else list(node.all_input_nodes)
    while frontier:
        at = frontier.pop()
        if at in failed:
            return True
        moves_nothing = _is_view(at) and at.target is not torch.ops.aten.clone.default
        if moves_nothing or at.target is operator.getitem:
            frontier.extend(at.all_input_nodes[:1])
    return False


def _comes_from(node: Node, source: Node) -> bool:
    """True if views lead from `source` to `node`."""
    while node is not source and _is_view(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node is source


def _is_view(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.overloadpacket.__name__ in VIEWS


def _changes_last_dim(node: Node) -> bool:
    source = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], Node) else None
    result = node.meta.get("val")
    if not (isinstance(source, torch.Tensor) and isinstance(result, torch.Tensor) and source.dim() and result.dim()):
        return False
    packet = getattr(node.target, "overloadpacket", None)
    return packet is not None and packet.__name__ in _RESIZING and bool(source.shape[-1] != result.shape[-1])


def _tensor_values(args: Any) -> Iterator[torch.Tensor]:
    for arg in args:
        if isinstance(arg, Node):
            value = arg.meta.get("val")
            if isinstance(value, torch.Tensor):
                yield value
        elif isinstance(arg, list | tuple):
            yield from _tensor_values(arg)
