"""The calls a model makes of its blocks, and one call's operations with the CPU values they meet."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pipeline.diagnosis.provenance import module_path, source_line
from pipeline.diagnosis.wrong_values.narrow import NARROW, narrow_dtype
from pipeline.diagnosis.wrong_values.programs import Operation, Program, Ref, selected
from pipeline.diagnosis.wrong_values.rounding import is_dense


@dataclass(frozen=True)
class BlockCall:
    """One call of a block on the CPU, with what it returned."""

    path: str
    block: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: torch.Tensor

    def fed_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BlockCall:
        """The same call with other arguments."""
        return BlockCall(self.path, self.block, args, kwargs, self.output)


def record_block_calls(
    model: torch.nn.Module, blocks: list[tuple[str, torch.nn.Module]], inputs: dict[str, torch.Tensor]
) -> list[BlockCall]:
    """Run the CPU model once and keep every call of its blocks, in order."""
    calls: list[BlockCall] = []

    def note(path: str, block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        calls.append(BlockCall(path, block, args, kwargs, main_output(output)))

    run_noting(model, blocks, inputs, note)
    return calls


class _Seen(Exception):
    """Every class of block was called: the rest of the model is not run."""


def first_calls(
    model: torch.nn.Module, blocks: list[tuple[str, torch.nn.Module]], inputs: dict[str, torch.Tensor]
) -> list[BlockCall]:
    """The first call of the first block of each class; the CPU model runs no further than the last of them."""
    firsts = {type(block): (path, block) for path, block in reversed(blocks)}
    calls: dict[type, BlockCall] = {}

    def note(path: str, block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        calls.setdefault(type(block), BlockCall(path, block, args, kwargs, main_output(output)))
        if len(calls) == len(firsts):
            raise _Seen

    with suppress(_Seen):
        run_noting(model, firsts.values(), inputs, note)
    return list(calls.values())


def run_noting(
    model: torch.nn.Module,
    modules: Iterable[tuple[str, torch.nn.Module]],
    inputs: Mapping[str, torch.Tensor],
    note: Callable[[str, torch.nn.Module, tuple[Any, ...], dict[str, Any], Any], None],
) -> None:
    """Run the CPU model once; `note(path, module, args, kwargs, output)` hears of every call of these modules."""

    def hook(path: str) -> Callable[..., None]:
        return lambda module, args, kwargs, output: note(path, module, args, kwargs, output)

    handles = [module.register_forward_hook(hook(path), with_kwargs=True) for path, module in modules]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()


def without_hooks(block: torch.nn.Module) -> torch.nn.Module:
    """A copy that takes its arguments as they are: recorded calls have what hooks in front of the block made."""
    copied = copy.deepcopy(block)
    copied._forward_pre_hooks.clear()
    copied._forward_pre_hooks_with_kwargs.clear()
    return copied


def main_output(output: Any) -> torch.Tensor:
    """The hidden states a block returns: its result, or the first of several."""
    first = output if isinstance(output, torch.Tensor) else output[0]
    assert isinstance(first, torch.Tensor)
    return first


@dataclass(frozen=True)
class BlockGraph:
    """The operations of one block call in order, each value by name, and the dtype each has on the device."""

    kind: type
    operations: tuple[Operation, ...]
    values: dict[str, Any]
    dtypes: dict[str, torch.dtype]

    def segment(self, start: int, stop: int) -> Program | None:
        """Operations `start` to `stop` as one program fed with CPU values; None if nothing comes out.

        Values that later operations of the block read are outputs as well.
        """
        inside = self.operations[start:stop]
        found = selected(inside, self.values, self.dtypes)
        if found is None:
            return None
        later = {n for o in self.operations[stop:] for n in o.reads()}
        needed = [o.name for o in inside if o.name in later and isinstance(self.values[o.name], torch.Tensor)]
        return Program(found.operations, found.inputs, tuple(dict.fromkeys([*needed, *found.outputs])))

    def views_before(self, operation: Operation) -> list[str]:
        """The views that lie between what an operation reads and the operations or inputs that hold it, each once."""
        by_name = {o.name: o for o in self.operations}
        waiting, found = list(operation.reads()), {}  # type: list[str], dict[str, None]
        while waiting:
            view = by_name.get(waiting.pop())
            if view is not None and view.is_view:
                found[view.op] = None
                waiting += view.reads()
        return list(found)

    def chosen(self, operations: Sequence[Operation]) -> Program | None:
        """Some operations in one program, what they read from others fed with CPU values; None if nothing comes out."""
        return selected(operations, self.values, self.dtypes)

    def single(self, position: int) -> Program | None:
        """One operation alone; None for a view."""
        operation = self.operations[position]
        return None if operation.is_view else selected([operation], self.values, self.dtypes)


class Untraceable(Exception):
    """torch cannot export the block; what is inside it stays unseen."""


_UNTRACED = (
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    AssertionError,
    AttributeError,
    torch._dynamo.exc.TorchDynamoException,
)
"""What export raises for a block it cannot trace, and what a node of another sort raises when it is read."""


def graph_of(call: BlockCall) -> BlockGraph:
    """Trace a block call in 16 bits and give every value its fp32 value on the CPU, from fp16 weights and inputs.

    Raises Untraceable.
    """
    narrow = without_hooks(call.block).to(narrow_dtype())
    args, kwargs = pytree.tree_map_only(torch.Tensor, _narrow, (call.args, call.kwargs))
    try:
        with torch.no_grad():
            program = torch.export.export(narrow, args, kwargs, strict=False)
            return _evaluated(program, call)
    except _UNTRACED as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise Untraceable(f"{type(call.block).__name__}: {reason}") from error


def _narrow(value: torch.Tensor) -> torch.Tensor:
    return value.to(narrow_dtype()) if value.dtype == torch.float32 else value


def _single(value: Any) -> Any:
    """A 16-bit tensor as fp32: the reference computes in fp32 on values the device can hold."""
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in NARROW else value


def _evaluated(program: Any, call: BlockCall) -> BlockGraph:
    nodes = [n for n in program.graph.nodes if n.op == "call_function" and "_assert" not in str(n.target)]
    given = _placeholders(program, call)
    names = {n: f"x{k}" for k, n in enumerate(given)} | {n: f"v{k}" for k, n in enumerate(nodes)}
    values = {names[n]: v for n, v in given.items()}
    dtypes = {names[n]: n.meta["val"].dtype for n in names if isinstance(n.meta.get("val"), torch.Tensor)}
    operations = []
    for node in nodes:
        if _is_identity(node):
            names[node] = names[node.args[0]]
            continue
        constants = {names[n]: values[names[n]] for n in node.all_input_nodes}
        args, kwargs = (_referring(a, names, constants) for a in (node.args, dict(node.kwargs)))
        place = source_line(node.meta), module_path(call.path, node.meta)
        made = Operation(names[node], node.target, tuple(args), dict(kwargs), *place)
        operations.append(made)
        values[made.name] = computed(made, values)
    return BlockGraph(type(call.block), tuple(operations), values, dtypes)


IDENTITIES = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


def _is_identity(node: Any) -> bool:
    """True for a node that hands on what it is given: it stands in no program."""
    return node.target in IDENTITIES or (node.target is torch.ops.aten.dropout.default and node.args[2] is False)


def computed(operation: Operation, values: dict[str, Any]) -> Any:
    """The operation's result on the CPU for the values its arguments refer to."""
    args, kwargs = (_filled(a, values) for a in (operation.args, operation.kwargs))
    return operation.target(*args, **kwargs)


def _filled(argument: Any, values: dict[str, Any]) -> Any:
    """An argument with values for references; the reference run has fp32 where the device has 16 bits."""
    if isinstance(argument, Ref):
        return values[argument.name]
    if argument in NARROW:
        return torch.float32
    if isinstance(argument, dict):
        return {k: _filled(v, values) for k, v in argument.items()}
    if isinstance(argument, list | tuple):
        return type(argument)(_filled(v, values) for v in argument)
    return argument


def _referring(argument: Any, names: dict[Any, str], constants: dict[str, Any]) -> Any:
    """A node's argument with `Ref` for values that are no constants, and plain containers for immutable ones."""
    if isinstance(argument, torch.fx.Node):
        value = constants[names[argument]]
        return value if isinstance(value, int | float | bool | str) or value is None else Ref(names[argument])
    if isinstance(argument, dict):
        return {k: _referring(v, names, constants) for k, v in argument.items()}
    if isinstance(argument, list):
        return [_referring(v, names, constants) for v in argument]
    if isinstance(argument, tuple):
        return tuple(_referring(v, names, constants) for v in argument)
    return argument


def _placeholders(program: Any, call: BlockCall) -> dict[Any, Any]:
    signature = program.graph_signature
    weights = {n: t.half() if t.dtype is torch.float32 else t for n, t in call.block.state_dict().items()}
    state = {**program.state_dict, **program.constants, **weights}
    lifted = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    given: Iterator[Any] = iter(pytree.tree_leaves((call.args, call.kwargs)))
    values = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            is_weight = node.name in lifted
            value = state[lifted[node.name]] if is_weight else next(given)
            values[node] = _single(value) if is_weight else rounded_half(value)
    return values


def rounded_half(value: Any) -> Any:
    """An fp32 tensor with the values fp16 keeps of it, strides and offset kept; other values as they are.

    What fp16 cannot hold stays as it is: the device can.
    """
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return _single(value)
    narrow = value.half().float()
    kept = torch.where(torch.isfinite(narrow), narrow, value)
    if value.storage_offset() == 0:
        return torch.empty_strided(value.shape, value.stride()).copy_(kept) if is_dense(value) else kept
    whole = torch.as_strided(value, (value.untyped_storage().nbytes() // value.itemsize,), (1,), 0)
    return torch.as_strided(rounded_half(whole), value.shape, value.stride(), value.storage_offset())
