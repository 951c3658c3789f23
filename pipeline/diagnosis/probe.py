"""Finds silent wrong values on the device: operation by operation inside a block, then at the border of two blocks.

Runs in a device child. Every distinct operation of a block is run alone on the device with the values it meets in the
CPU run (rounded to fp16) and compared with the CPU. A wrong one is run again with contiguous operands and at a length
of whole sticks: what mends it is its cause. Two consecutive blocks are run with the first one's output handed over on
the device, and with the same values uploaded anew: if they differ, the border is at fault.

Black box: it uses values only and would do the same on a card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from agents.types import Failure, FailureKind
from pipeline.diagnosis.provenance import module_path, source_line
from pipeline.verification.policy import current_policy

DEVICE = "spyre"
VIEWS = frozenset(
    [
        "view",
        "transpose.int",
        "permute",
        "reshape",
        "expand",
        "unsqueeze",
        "squeeze.dim",
        "slice.Tensor",
        "select.int",
        "t",
        "alias",
        "detach",
        "dropout",
        "unbind.int",
        "chunk",
        "split.Tensor",
        "split_with_sizes",
        "unflatten.int",
        "flatten.using_ints",
    ]
)
"""Operations that only describe memory; what they do shows in the operation that reads it."""


class BlockCall(NamedTuple):
    """One call of a block on the CPU."""

    path: str
    block: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Step(NamedTuple):
    """One operation of a block with the CPU values of its arguments."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    source: str
    module: str


@dataclass(frozen=True)
class Difference:
    """How far a device value is from the CPU's: cosine and ratio of norms over all elements, finite or not."""

    cosine: float
    norm_ratio: float
    finite: bool

    @property
    def wrong(self) -> bool:
        """True beyond what 16-bit rounding of one operation explains."""
        limits = current_policy().diagnosis
        far = self.cosine < limits["wrong_cosine"] or abs(self.norm_ratio - 1) > limits["wrong_norm"]
        return not self.finite or far


def difference(device: torch.Tensor, cpu: torch.Tensor) -> Difference:
    """Compare two tensors of equal shape in fp64."""
    a, b = device.double().flatten(), cpu.double().flatten()
    finite = bool(torch.isfinite(a).all()) or not bool(torch.isfinite(b).all())
    norms = float(a.norm()), float(b.norm())
    if not finite or min(norms) == 0:
        return Difference(1.0 if norms[0] == norms[1] else 0.0, 1.0 if norms[0] == norms[1] else 0.0, finite)
    return Difference(float(a @ b) / (norms[0] * norms[1]), norms[0] / norms[1], finite)


def record_block_calls(
    model: torch.nn.Module, blocks: list[tuple[str, torch.nn.Module]], inputs: dict[str, torch.Tensor], most: int = 2
) -> list[BlockCall]:
    """Run the CPU model once and keep the arguments of its first `most` block calls, in order."""
    calls: list[BlockCall] = []

    def hook(path: str) -> Callable[..., None]:
        def record(block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if len(calls) < most:
                calls.append(BlockCall(path, block, args, kwargs))

        return record

    handles = [b.register_forward_pre_hook(hook(path), with_kwargs=True) for path, b in blocks]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def steps(call: BlockCall) -> Iterator[Step]:
    """The operations of one block call with their CPU values, in order."""
    with torch.no_grad():
        program = torch.export.export(call.block, call.args, call.kwargs, strict=False)
        values = _placeholders(program, call)
        for node in program.graph.nodes:
            if node.op != "call_function":
                continue
            args, kwargs = filled(node.args, values), filled(node.kwargs, values)
            if isinstance(node.target, torch._ops.OpOverload) and short_name(node.target) not in VIEWS:
                yield Step(node.target, args, kwargs, source_line(node.meta), module_path(call.path, node.meta))
            values[node] = node.target(*args, **kwargs)


def filled(argument: Any, values: dict[Any, Any]) -> Any:
    """A node's argument with values for nodes, and plain lists and dictionaries for the graph's immutable ones."""
    if isinstance(argument, torch.fx.Node):
        return values[argument]
    if isinstance(argument, dict):
        return {k: filled(v, values) for k, v in argument.items()}
    if isinstance(argument, list | tuple):
        return type(argument).__mro__[-2](filled(v, values) for v in argument)
    return argument


def _placeholders(program: Any, call: BlockCall) -> dict[Any, Any]:
    signature = program.graph_signature
    state = {**program.state_dict, **program.constants}
    lifted = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    given = iter(pytree.tree_leaves((call.args, call.kwargs)))
    values = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            values[node] = state[lifted[node.name]] if node.name in lifted else next(given)
    return values


def short_name(target: Any) -> str:
    """`aten.view.default` → `view`, `aten.add.Tensor` → `add.Tensor`."""
    name = str(target).removeprefix("aten.")
    return name.removesuffix(".default")


def narrow(value: Any) -> Any:
    """An fp32 CPU tensor rounded to fp16, strides kept; other values as they are."""
    return value.half() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


def widen(value: Any) -> Any:
    """An fp16 CPU tensor as fp32; other values as they are."""
    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float16 else value


def compare_step(step: Step, change: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Difference | None:
    """Run one operation alone on the device and on the CPU; None if it yields no float tensor or is refused.

    `change` maps each tensor operand first (for example to a contiguous copy). A refusal is no silent defect: the
    capability report names it.
    """
    leaves, spec = pytree.tree_flatten((step.args, step.kwargs))
    leaves = [narrow(v) for v in leaves]
    if change is not None:
        leaves = [change(v) if isinstance(v, torch.Tensor) else v for v in leaves]
    expected = _run(step.target, [widen(v) for v in leaves], spec)
    if not isinstance(expected, torch.Tensor) or not expected.is_floating_point():
        return None
    positions = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor)]

    def alone(*tensors: torch.Tensor) -> Any:
        mine = list(leaves)
        for position, tensor in zip(positions, tensors, strict=True):
            mine[position] = tensor
        return _run(step.target, mine, spec)

    torch._dynamo.reset()
    compiled = torch.compile(alone, fullgraph=True, dynamic=False)
    try:
        got = compiled(*[leaves[i].to(DEVICE) for i in positions])
    except RuntimeError:
        return None
    return difference(got.cpu().float(), expected)


def _run(target: Any, leaves: list[Any], spec: Any) -> Any:
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return target(*args, **kwargs)


def signature(step: Step) -> tuple[Any, ...]:
    """Equal for operations that the device cannot tell apart: op, sizes, strides, dtypes and scalars."""
    leaves = pytree.tree_leaves((step.args, step.kwargs))
    described = [
        (tuple(v.shape), tuple(v.stride()), str(v.dtype)) if isinstance(v, torch.Tensor) else repr(v) for v in leaves
    ]
    return (str(step.target), *described)


def wrong_operations(whole: BlockCall, ragged: BlockCall) -> Iterator[Failure]:
    """The wrong operations of one block: `whole` ran at a length of whole sticks, `ragged` at another.

    A wrong operation's cause is the first thing that mends it: "layout" (contiguous operands), "length" (right with
    contiguous operands at whole sticks, wrong at the ragged length), else "value".
    """
    seen: set[tuple[Any, ...]] = set()
    for at_whole, at_ragged in zip(steps(whole), steps(ragged), strict=True):
        if signature(at_whole) in seen:
            continue
        seen.add(signature(at_whole))
        yield from _judge(at_whole, at_ragged)


def _judge(at_whole: Step, at_ragged: Step) -> Iterator[Failure]:
    found = compare_step(at_whole)
    if found is None:
        return
    dense = compare_step(at_whole, torch.Tensor.contiguous) if found.wrong else found
    if found.wrong and dense is not None:
        yield failure(at_whole, "value" if dense.wrong else "layout", found)
        if dense.wrong:
            return
    short = compare_step(at_ragged, torch.Tensor.contiguous)
    if short is not None and short.wrong:
        yield failure(at_ragged, "length", short)


def failure(step: Step, cause: str, found: Difference) -> Failure:
    """A `wrong_values` failure; its first scalar is the cause the experiments found."""
    leaves = pytree.tree_leaves((step.args, step.kwargs))
    tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
    scalars = tuple(v for v in leaves if isinstance(v, int | float | str | bool))
    texts = {
        "layout": "wrong with transposed operands, right with contiguous ones",
        "length": "right at a length of whole sticks, wrong at another",
        "value": "wrong for contiguous operands at a length of whole sticks",
    }
    return Failure(
        kind=FailureKind.WRONG_VALUES,
        op=str(step.target),
        source=step.source,
        module=step.module,
        message=f"{texts[cause]}: cosine {found.cosine:.4f} against the CPU, norm ratio {found.norm_ratio:.3f}",
        shapes=tuple(tuple(t.shape) for t in tensors),
        dtypes=tuple(str(narrow(t).dtype).removeprefix("torch.") for t in tensors),
        scalars=(cause, *scalars),
        dtype_run="float16",
    )


def wrong_border(first: BlockCall, second: BlockCall) -> Failure | None:
    """Whether the second block reads the first one's output wrongly when it is handed over on the device.

    None if it does not, or if the device refuses the blocks: then nothing can be handed over.
    """
    try:
        handed, direct, fresh = _handed_over(first, second)
    except RuntimeError:
        return None
    found = difference(direct, fresh)
    if not found.wrong:
        return None
    return Failure(
        kind=FailureKind.WRONG_VALUES,
        op="block",
        source=_forward_line(second.block),
        module=module_path(second.path, {}),
        message=f"reads another block's output wrongly, right when it is copied: cosine {found.cosine:.4f}",
        shapes=(tuple(handed.shape),),
        dtypes=("float16",),
        scalars=("border",),
        dtype_run="float16",
    )


def _handed_over(first: BlockCall, second: BlockCall) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The first block's output on the device, and the second's on the host: from it as it is, and from a fresh copy."""
    torch._dynamo.reset()
    blocks = [_on_device(call.block) for call in (first, second)]
    args, kwargs = _to_device((first.args, first.kwargs))
    rest = _to_device((second.args[1:], {k: v for k, v in second.kwargs.items() if k != "hidden_states"}))
    with torch.no_grad():
        handed = _tensor(blocks[0](*args, **kwargs))
        anew = handed.cpu().to(DEVICE)
        direct, fresh = (_tensor(blocks[1](x, *rest[0], **rest[1])).cpu().float() for x in (handed, anew))
    return handed, direct, fresh


def _on_device(block: torch.nn.Module) -> Callable[..., Any]:
    import copy

    moved = copy.deepcopy(block).half().to(DEVICE)
    compiled: Callable[..., Any] = torch.compile(moved, fullgraph=True, dynamic=False)
    return compiled


def _to_device(tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: narrow(t).to(DEVICE), tree)


def _tensor(output: Any) -> torch.Tensor:
    first = output if isinstance(output, torch.Tensor) else output[0]
    assert isinstance(first, torch.Tensor)
    return first


def _forward_line(block: torch.nn.Module) -> str:
    import inspect
    from pathlib import Path

    code = inspect.unwrap(type(block).forward).__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
