"""Where to look in a wrong block: the whole block as one graph that returns every value, judged operation by operation.

Each operation is compared with the CPU's result *for the operands it had on the device*, so that one run shows every
operation that is off, also those behind the first. What is shown is a suspicion: returning every value may change what
is fused, so that each suspect is tried again by itself, and a block without one is searched as a whole.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from pipeline.diagnosis.wrong_values.blocks import BlockGraph, computed
from pipeline.diagnosis.wrong_values.compare import difference, ideal_results
from pipeline.diagnosis.wrong_values.device_runs import Refused
from pipeline.diagnosis.wrong_values.programs import Operation, exposing


def suspects(graph: BlockGraph) -> list[int]:
    """Positions of the operations that are wrong for their own operands; [] also where the device refuses the graph."""
    program = graph.segment(0, len(graph.operations))
    if program is None:
        return []
    shown = exposing(program, graph.values)
    try:
        got = dict(zip(shown.outputs, shown.on_device(), strict=True))
    except Refused:
        return []
    values: dict[str, Any] = dict(graph.values)
    found = []
    for position, operation in enumerate(graph.operations):
        expected = computed(operation, values)
        if operation.name in got and not operation.is_view:
            found += [position] if _is_off(operation, values, got[operation.name], expected) else []
            expected = _like(got[operation.name], expected)
        values[operation.name] = expected
    return found


def _is_off(operation: Operation, values: dict[str, Any], got: torch.Tensor, expected: torch.Tensor) -> bool:
    names = list(dict.fromkeys(operation.reads()))

    def run(*given: Any) -> Any:
        return computed(operation, {**values, **dict(zip(names, given, strict=True))})

    leaves = [values[n] for n in names]
    ideal = [pytree.tree_leaves(r)[0] for r in ideal_results(run, leaves)]
    return difference(got, expected, ideal).wrong


def _like(value: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The device's value in the CPU's dtype and memory order."""
    return torch.empty_like(expected).copy_(value)
