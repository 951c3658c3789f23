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
from pipeline.diagnosis.wrong_values.compare import Difference, difference, ideal_results
from pipeline.diagnosis.wrong_values.device_runs import Refused
from pipeline.diagnosis.wrong_values.programs import Operation, exposing

ROUNDS = 4
"""How many birthplaces of values that are not finite are looked behind."""


def suspects(graph: BlockGraph, start: int = 0, rounds: int = ROUNDS) -> list[int]:
    """Positions from `start` on of the operations that are wrong for their own operands; [] where the device refuses.

    Behind an operation whose result is not finite nothing can be judged: what follows it is run again, fed with the
    CPU's values.
    """
    program = graph.segment(start, len(graph.operations))
    if program is None:
        return []
    shown = exposing(program, graph.values)
    try:
        got = dict(zip(shown.outputs, shown.on_device(), strict=True))
    except Refused:
        return []
    values: dict[str, Any] = dict(graph.values)
    found: list[int] = []
    for position, operation in enumerate(graph.operations[start:], start):
        expected = computed(operation, values)
        if operation.name in got and not operation.is_view:
            off = _difference(operation, values, got[operation.name], expected)
            found += [position] if off.wrong else []
            if not off.finite and rounds:
                return found + suspects(graph, position + 1, rounds - 1)
            expected = _like(got[operation.name], expected)
        values[operation.name] = expected
    return found


def _difference(operation: Operation, values: dict[str, Any], got: torch.Tensor, expected: torch.Tensor) -> Difference:
    names = list(dict.fromkeys(operation.reads()))

    def run(*given: Any) -> Any:
        return computed(operation, {**values, **dict(zip(names, given, strict=True))})

    leaves = [values[n] for n in names]
    ideal = [pytree.tree_leaves(r)[0] for r in ideal_results(run, leaves)]
    return difference(got, expected, ideal)


def _like(value: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The device's value in the CPU's dtype and memory order."""
    return torch.empty_like(expected).copy_(value)
