"""Pieces of a block as small programs: operations in order, their inputs with CPU values, runnable source text.

The source that runs here is the source a reproducer prints, so that both compile to the same graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from pipeline.diagnosis.wrong_values.compare import Difference, difference, ideal_results, worst
from pipeline.diagnosis.wrong_values.device_runs import run_compiled, upload
from pipeline.diagnosis.wrong_values.narrow import narrow_dtype

VIEWS = frozenset(
    [
        "view.default",
        "_unsafe_view.default",
        "view_as.default",
        "transpose.int",
        "permute.default",
        "reshape.default",
        "reshape_as.default",
        "expand.default",
        "expand_as.default",
        "unsqueeze.default",
        "squeeze.default",
        "squeeze.dim",
        "slice.Tensor",
        "select.int",
        "narrow.default",
        "t.default",
        "alias.default",
        "detach.default",
        "detach_.default",
        "dropout.default",
        "unbind.int",
        "chunk.default",
        "split.Tensor",
        "split_with_sizes.default",
        "unflatten.int",
        "flatten.using_ints",
        "lift_fresh_copy.default",
        "numpy_T.default",
        "movedim.int",
    ]
)
"""Operations that only describe memory; what they do shows in the operation that reads it."""
OFFSET_VIEWS = frozenset(
    [
        "slice.Tensor",
        "select.int",
        "narrow.default",
        "unbind.int",
        "chunk.default",
        "split.Tensor",
        "split_with_sizes.default",
    ]
)
"""Views that can begin inside their storage."""


class Ref(NamedTuple):
    """The value called `name`: an input or the result of an earlier operation."""

    name: str


@dataclass(frozen=True)
class Operation:
    """One operation: its target, arguments with `Ref` for values, and where in the model it comes from."""

    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    source: str = ""
    module: str = ""

    @property
    def op(self) -> str:
        """The overload as users' code reaches it: "aten.linear.default"."""
        return str(self.target) if isinstance(self.target, torch._ops.OpOverload) else _function_name(self.target)

    @property
    def is_view(self) -> bool:
        """True if the operation computes nothing."""
        return not isinstance(self.target, torch._ops.OpOverload) or self.op.removeprefix("aten.") in VIEWS

    @property
    def may_offset(self) -> bool:
        """True for views that can begin inside their storage."""
        return self.op.removeprefix("aten.") in OFFSET_VIEWS

    def reads(self) -> Iterator[str]:
        """Names of the values the operation reads."""
        return _refs((self.args, self.kwargs))

    def scalars(self) -> tuple[Any, ...]:
        """Constant arguments by position."""
        return tuple(a for a in self.args if isinstance(a, int | float | str | bool))


@dataclass(frozen=True)
class Input:
    """A value a program is fed with: the CPU's value (floats as fp32) and its dtype on the device."""

    name: str
    value: torch.Tensor
    dtype: torch.dtype

    def on_device(self) -> torch.Tensor:
        """The value on the device."""
        moved: torch.Tensor = upload(self.value, self.dtype)
        return moved


@dataclass(frozen=True)
class Program:
    """Operations with their inputs; `outputs` are names of tensor results."""

    operations: tuple[Operation, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    run_dtype: torch.dtype = torch.float16
    """The dtype the model runs in on the device."""

    @property
    def computing(self) -> tuple[Operation, ...]:
        """The operations that are no views."""
        return tuple(o for o in self.operations if not o.is_view)

    def source(self) -> str:
        """`def run(inputs): ...` over the free names torch, operator, half (the 16-bit dtype) and device."""
        lines = [f"def run({', '.join(i.name for i in self.inputs)}):"]
        lines += [f"    {o.name} = {_call_text(o)}" for o in self.operations]
        return "\n".join([*lines, f"    return {', '.join(self.outputs)}"])

    def function(self, half: torch.dtype, device: str) -> Callable[..., Any]:
        """The program as a function; with `half` fp32 and device "cpu" it is the reference."""
        import operator

        names: dict[str, Any] = {"torch": torch, "operator": operator, "half": half, "device": device, "inf": torch.inf}
        exec(self.source(), names)  # noqa: S102 - text this module made of a traced graph
        made: Callable[..., Any] = names["run"]
        return made

    def in_dtype(self, dtype: torch.dtype) -> Program:
        """The same program with `dtype` in the place of the 16-bit dtype."""
        inputs = tuple(replace(i, dtype=dtype) if i.dtype == self.run_dtype else i for i in self.inputs)
        return replace(self, inputs=inputs, run_dtype=dtype)

    def with_values(self, values: Iterable[torch.Tensor]) -> Program:
        """The same operations fed with other values."""
        inputs = tuple(replace(i, value=v) for i, v in zip(self.inputs, values, strict=True))
        return replace(self, inputs=inputs)

    def on_cpu(self) -> tuple[torch.Tensor, ...]:
        """The results in fp32 on the CPU."""
        with torch.no_grad():
            return _as_tuple(self.function(torch.float32, "cpu")(*[i.value for i in self.inputs]))

    def on_device(self) -> list[torch.Tensor]:
        """The results of the program compiled as one graph, on the host. Raises Refused."""
        return run_compiled(self.function(self.run_dtype, "spyre"), [i.on_device() for i in self.inputs])

    def differences(self) -> list[Difference]:
        """Each output of the device against the CPU. Raises Refused."""
        values = [i.value for i in self.inputs]
        wanted, reference = self.on_cpu(), self.function(torch.float32, "cpu")
        got = self.on_device()
        ideal = [_as_tuple(r) for r in ideal_results(lambda *v: reference(*v), values)]
        return [difference(got[n], wanted[n], [run[n] for run in ideal]) for n in range(len(wanted))]

    def compare(self) -> Difference:
        """The worst output of the device against the CPU. Raises Refused."""
        return worst(self.differences())

    def signature(self) -> tuple[Any, ...]:
        """Equal for programs that the device cannot tell apart: source, sizes, strides, offsets and dtypes."""
        described = [(tuple(i.value.shape), i.value.stride(), i.value.storage_offset(), i.dtype) for i in self.inputs]
        names = {n: f"n{k}" for k, n in enumerate([i.name for i in self.inputs] + [o.name for o in self.operations])}
        text = re.sub(r"\b[xv]\d+\b", lambda m: names.get(m[0], m[0]), self.source())
        return (text, *described)


def _as_tuple(result: Any) -> tuple[torch.Tensor, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, dict):
        yield from _refs(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _refs(item)


def _function_name(target: Any) -> str:
    module = getattr(target, "__module__", "").lstrip("_")
    return f"{module}.{getattr(target, '__name__', target)}"


def _call_text(operation: Operation) -> str:
    arguments = [text_of(a) for a in operation.args] + [f"{k}={text_of(v)}" for k, v in operation.kwargs.items()]
    prefix = "torch.ops." if isinstance(operation.target, torch._ops.OpOverload) else ""
    return f"{prefix}{operation.op}({', '.join(arguments)})"


def text_of(value: Any) -> str:
    """An argument as source text; the 16-bit dtype and the device are the free names `half` and `device`."""
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(f'{text_of(v)}, ' for v in value)})"
    if isinstance(value, torch.device):
        return "device"
    if value is torch.float16 or value is narrow_dtype():
        return "half"
    return repr(value)


def selected(operations: Sequence[Operation], values: dict[str, Any], dtypes: dict[str, torch.dtype]) -> Program | None:
    """The program of consecutive operations, fed with CPU values; None if it yields no tensor.

    Its outputs are the results that the block reads later or returns, and the last one.
    """
    inside = {o.name for o in operations}
    read = dict.fromkeys(n for o in operations for n in o.reads() if n not in inside)
    if any(not isinstance(values[n], torch.Tensor) for n in read):
        return None
    inner = {n for o in operations for n in o.reads()}
    outputs = [o.name for o in operations if o.name not in inner and _is_result(values[o.name])]
    if not outputs:
        return None
    inputs = tuple(Input(n, values[n], dtypes.get(n, values[n].dtype)) for n in read)
    return Program(tuple(operations), inputs, tuple(outputs), narrow_dtype())


def exposing(program: Program, values: dict[str, Any]) -> Program:
    """The same program with every computed value among its outputs, in order."""
    names = [o.name for o in program.operations if not o.is_view and _is_result(values[o.name])]
    return replace(program, outputs=tuple(dict.fromkeys([*names, *program.outputs])))


def _is_result(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.dtype == torch.bool)
