"""The program of a loud failure: the operations of its line of code, alone, as small as they are still refused."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from agents.types import Failure, FailureKind
from pipeline.diagnosis.names import written
from pipeline.diagnosis.reproducer.signature import Signature, of_raised
from pipeline.diagnosis.wrong_values.blocks import BlockGraph
from pipeline.diagnosis.wrong_values.device_runs import REFUSED, Refused
from pipeline.diagnosis.wrong_values.experiments import CANNOT, STICK, resized
from pipeline.diagnosis.wrong_values.fusion import first_holding
from pipeline.diagnosis.wrong_values.programs import Input, Operation, Program, Ref, selected

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def in_block(failure: Failure, graphs: Sequence[BlockGraph]) -> Program | None:
    """The smallest run of operations around the failure's place that is refused for the same reason."""
    for graph in graphs:
        places = [n for n, o in enumerate(graph.operations) if _is_place(failure, o)]
        if places:
            found = _smallest_refused(failure, graph, places[0], places[-1] + 1)
            if found is not None:
                return found
    return None


def _is_place(failure: Failure, operation: Operation) -> bool:
    """The same line of code, or the same operation: the report may see an inner line that the trace does not."""
    return operation.source == failure.source or written(operation.op) == written(failure.op)


def _smallest_refused(failure: Failure, graph: BlockGraph, start: int, stop: int) -> Program | None:
    def refused(low: int, high: int) -> Program | None:
        program = graph.segment(low, high)
        return None if program is None else _refused_guise(program.in_dtype(_dtype_of(failure)), failure)

    if refused(start, stop) is None:
        return None
    high = first_holding(lambda n: refused(start, n) is not None, start, stop)
    front = first_holding(lambda n: refused(high - n, high) is not None, 0, high - start)
    return refused(high - front, high)


def _refused_guise(program: Program, failure: Failure) -> Program | None:
    """The program, or a guise of it, that is refused for the failure's reason."""
    for guise in guises(program):
        try:
            if is_refused_alike(guise, failure):
                return guise
        except CANNOT:
            continue
    return None


def guises(program: Program) -> Iterator[Program]:
    """The program, and changes of it without the other reasons that one operation is often refused for.

    A view is refused only with what reads it; a bool mask or heads that do not fill a stick may hide what is behind.
    """
    yield program
    yield _read(program)
    masked = replace(program, inputs=tuple(_additive(i) for i in program.inputs))
    ragged = {n: -(-n // STICK) * STICK for i in program.inputs for n in i.value.shape[-1:] if n % STICK and n > 1}
    if any(i.value.dtype == torch.bool for i in program.inputs):
        yield masked
    if ragged:
        yield resized(program, ragged)
        yield resized(masked, ragged)


def _read(program: Program) -> Program:
    """The program with an addition that reads its last result."""
    reader = Operation("read", torch.ops.aten.add.Tensor, (Ref(program.outputs[-1]), 1.0), {})
    return replace(program, operations=(*program.operations, reader), outputs=("read",))


def _additive(given: Input) -> Input:
    if given.value.dtype != torch.bool:
        return given
    mask = torch.where(given.value, 0.0, -30_000.0)
    return replace(given, value=mask, dtype=torch.float16)


def _dtype_of(failure: Failure) -> torch.dtype:
    return DTYPES.get(failure.dtype_run, torch.float16)


_VARIABLE = re.compile(r"\bd\d+\b")


def is_refused_alike(program: Program, failure: Failure) -> bool:
    """True if the device refuses the program for the kind of the failure, in its words but for the loop variables."""
    try:
        program.on_device()
    except Refused as refused:
        inner = getattr(refused.error, "inner_exception", None) or refused.error
        same_words = _VARIABLE.sub("d", failure.message) in _VARIABLE.sub("d", str(inner))
        return same_words or of_raised(failure.op, refused.error).kind == failure.kind != FailureKind.LAYOUT
    return False


NOTHING = Signature(FailureKind.UNCLASSIFIED, "", of_raised("", ValueError()).error_class)
"""The signature of a program that runs."""


def raised(program: Program, op: str) -> Signature:
    """How the device refuses the program; NOTHING if it runs."""
    try:
        program.on_device()
    except Refused as refused:
        return of_raised(op, refused.error)
    return NOTHING


class Recorder(TorchDispatchMode):
    """Keeps the arguments of the first call of each wanted (operation, shapes) while a model runs on the CPU."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__()
        self.wanted = {(f.op, f.shapes) for f in failures}
        self.found: dict[Any, Program] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        key = (str(func), tuple(tuple(t.shape) for t in tensors))
        if key in self.wanted and key not in self.found:
            program = _single(func, args, kwargs or {}, tensors)
            if program is not None:
                self.found[key] = program
        return func(*args, **(kwargs or {}))


def _single(func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> Program | None:
    names = {id(t): f"x{n}" for n, t in enumerate(tensors)}
    values = {names[id(t)]: t.detach().clone() for t in tensors}

    def named(value: Any) -> Any:
        return Ref(names[id(value)]) if isinstance(value, torch.Tensor) else value

    args, kwargs = pytree.tree_map(named, (tuple(args), dict(kwargs)), is_leaf=lambda v: isinstance(v, torch.Tensor))
    return selected([Operation("v0", func, args, kwargs)], {**values, "v0": torch.zeros(1)}, {})


def outside(failure: Failure, recorder: Recorder) -> Program | None:
    """The single eager operation of a failure outside the blocks."""
    program = recorder.found.get((failure.op, failure.shapes))
    return None if program is None else program.in_dtype(_dtype_of(failure))


def raised_eagerly(program: Program, op: str) -> Signature:
    """How the device refuses the program's operation called by itself, or that the CPU did it; NOTHING if it runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            program.function(program.run_dtype, "spyre")(*[i.on_device() for i in program.inputs])
        except REFUSED as error:
            return of_raised(op, error)
    if any(w.category.__name__ == "FallbackWarning" for w in caught):
        return Signature(FailureKind.CPU_FALLBACK, op, NOTHING.error_class)
    return NOTHING
