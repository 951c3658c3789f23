"""What runs outside the blocks, operation by operation: embeddings, and the norm after the last block.

These parts run without compilation on the device. Each gets the CPU's inputs; where its result is wrong, every
operation that it calls is compared with the CPU's result for the operands it had, and the wrong ones are named.
"""

from __future__ import annotations

import copy
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.diagnosis.provenance import MODEL_CODE
from pipeline.diagnosis.wrong_values.blocks import main_output, rounded_half, run_noting
from pipeline.diagnosis.wrong_values.compare import Difference, difference, ideal_results
from pipeline.diagnosis.wrong_values.device_runs import DEVICE, REFUSED, Refused, fetch, upload
from pipeline.diagnosis.wrong_values.experiments import mending
from pipeline.diagnosis.wrong_values.findings import Finding, operation_findings
from pipeline.diagnosis.wrong_values.narrow import narrow_dtype
from pipeline.diagnosis.wrong_values.programs import Operation, Program, Ref, selected


class Part(NamedTuple):
    """One module outside the blocks with the inputs that it had on the CPU."""

    path: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Eager(Program):
    """A program that runs on the device as calls, not as a graph."""

    def on_device(self) -> list[torch.Tensor]:
        """The results of the calls, on the host. Raises Refused."""
        try:
            with torch.no_grad():
                result = self.function(self.run_dtype, DEVICE)(*[i.on_device() for i in self.inputs])
                return [fetch(t) for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        except REFUSED as error:
            raise Refused(error) from error


def record_parts(model: torch.nn.Module, modules: Mapping[str, torch.nn.Module], inputs: Any) -> list[Part]:
    """Run the CPU model once and keep the first call of each module."""
    parts: dict[str, Part] = {}

    def note(path: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _output: Any) -> None:
        parts.setdefault(path, Part(path, module, args, kwargs))

    run_noting(model, modules.items(), inputs, note)
    return list(parts.values())


def outside_modules(model: torch.nn.Module, blocks: Sequence[str]) -> dict[str, torch.nn.Module]:
    """Path → module of the token embeddings and of norms that lie in no block and in no embeddings."""
    from adapters.structure import embeddings_of, path_of

    embeddings = embeddings_of(model)
    found = {path_of(model, embeddings): embeddings}
    within = (*blocks, *found)
    for path, module in model.named_modules():
        inside = any(f"{path}.".startswith(f"{p}.") for p in within)
        if not inside and "norm" in type(module).__name__.lower() and not list(module.children()):
            found[path] = module
    return found


def outside_findings(parts: Sequence[Part], variant: str) -> Iterator[Finding]:
    """The wrong operations of every part whose result is wrong. Parts that the device refuses are loud: left out."""
    for part in parts:
        try:
            if _compared(part).wrong:
                yield from _inside(part, variant)
        except Refused:
            continue


def _compared(part: Part) -> Difference:
    """The part's result on the device against the CPU's, both from 16-bit weights and inputs."""
    on_cpu = copy.deepcopy(part.module).half().float()
    given, spec = pytree.tree_flatten(pytree.tree_map(rounded_half, (part.args, part.kwargs)))

    def run(*leaves: Any) -> torch.Tensor:
        args, kwargs = pytree.tree_unflatten(list(leaves), spec)
        return main_output(on_cpu(*args, **kwargs))

    with torch.no_grad():
        reference = run(*given)
    return difference(fetch(_on_device(part)), reference, ideal_results(run, given))


def _on_device(part: Part) -> torch.Tensor:
    try:
        moved = copy.deepcopy(part.module).half().to(DEVICE).to(narrow_dtype())
        args, kwargs = pytree.tree_map(upload, pytree.tree_map(rounded_half, (part.args, part.kwargs)))
        with torch.no_grad():
            return main_output(moved(*args, **kwargs))
    except REFUSED as error:
        raise Refused(error) from error


def _inside(part: Part, variant: str) -> Iterator[Finding]:
    """A finding for each distinct wrong call."""
    with _Calls(part.path) as calls:
        _on_device(part)
    for operation, program in calls.wrong:
        found = program.compare()
        if found.wrong:
            for finding in operation_findings(operation, program, found, mending(program), variant):
                yield replace(finding, failure=replace(finding.failure, place="outside"))


class _Calls(TorchDispatchMode):
    """Compares every computing call on the device with the CPU's result for the same operands."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.wrong: list[tuple[Operation, Program]] = []
        self._path = re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", path)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        on_device = all(t.device.type == DEVICE for t in tensors) and tensors
        if on_device and isinstance(result, torch.Tensor) and not func.is_view and not func._schema.is_mutable:
            self._judge(func, args, kwargs, tensors, result)
        return result

    def _judge(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], result: torch.Tensor) -> None:
        made = called(func, args, kwargs, tensors, self._path)
        if made is None or not result.is_floating_point():
            return
        operation, program = made
        reference = program.function(torch.float32, "cpu")
        values = [i.value for i in program.inputs]
        with torch.no_grad():
            ideal = ideal_results(lambda *v: reference(*v), values)
            if difference(fetch(result), reference(*values), ideal).wrong:
                self.wrong.append((operation, program))


def called(
    func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], path: str
) -> tuple[Operation, Program] | None:
    """One call as an operation and as a program fed with the host's copies of its operands; None without a result."""
    names = {id(t): f"x{n}" for n, t in enumerate(tensors)}
    values: dict[str, Any] = {names[id(t)]: fetch(t) for t in tensors}

    def named(value: Any) -> Any:
        return Ref(names[id(value)]) if isinstance(value, torch.Tensor) else value

    args, kwargs = pytree.tree_map(named, (tuple(args), dict(kwargs)), is_leaf=lambda v: isinstance(v, torch.Tensor))
    operation = Operation("v0", func, args, kwargs, _line(), path)
    dtypes = {names[id(t)]: t.dtype for t in tensors}
    program = selected([operation], {**values, "v0": torch.zeros(1)}, dtypes)
    return None if program is None else (operation, Eager(**vars(program)))


def _line() -> str:
    """The innermost line of the model's code that is running."""
    frames = [f for f in traceback.extract_stack() if any(part in f.filename for part in MODEL_CODE[:2])]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
