"""A block that is wrong although each of its operations is right alone: the smallest wrong run of operations in it.

Consecutive operations are compiled as one graph and fed with the CPU's values. The shortest wrong beginning of the
block ends with the operation that completes the defect; from there the front is cut off until the run comes right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.diagnosis.wrong_values.blocks import BlockGraph
from pipeline.diagnosis.wrong_values.compare import Difference
from pipeline.diagnosis.wrong_values.device_runs import Refused
from pipeline.diagnosis.wrong_values.programs import Operation, Program, exposing


class Fused(NamedTuple):
    """The smallest wrong run of operations, the one whose result is wrong first, and how wrong the run is."""

    program: Program
    operation: Operation
    difference: Difference
    stop: int
    """The position after the run's last operation."""

    @property
    def partner(self) -> Operation | None:
        """The other end of the run: the operation it must be fused with; None if the run computes one thing only."""
        others = [o for o in self.program.computing if o.name != self.operation.name]
        return (others[0] if self.program.computing[-1].name == self.operation.name else others[-1]) if others else None


def smallest_wrong(graph: BlockGraph, start: int, stop: int) -> Fused | None:
    """The smallest wrong run within operations `start` to `stop`; None if they are right as one graph."""
    if start >= stop or not _is_wrong(graph, start, stop):
        return None
    stop = first_holding(lambda n: _is_wrong(graph, start, n), start, stop)
    return _cut(graph, start, stop)


def smallest_ending(graph: BlockGraph, start: int, stop: int) -> Fused | None:
    """The smallest wrong run within operations `start` to `stop` that ends with the last; None if all are right."""
    return _cut(graph, start, stop) if start < stop and _is_wrong(graph, start, stop) else None


def _cut(graph: BlockGraph, start: int, stop: int) -> Fused:
    """A wrong run without what is not needed at its front."""
    front = first_holding(lambda n: _is_wrong(graph, stop - n, stop), 0, stop - start)
    program = graph.segment(stop - front, stop)
    assert program is not None
    found = Fused(program, _first_wrong(program, graph), program.compare(), stop)
    return _pair(graph, found) or _path(graph, found) or found


TRIED_PARTNERS = 4


def _pair(graph: BlockGraph, found: Fused) -> Fused | None:
    """The wrong operation with one other, each with the views it reads through, if the two in one graph are wrong.

    What else lies between them in a run need not take part; the ends of the run are tried first.
    """
    operation, others = found.operation, [o for o in found.program.computing if o.name != found.operation.name]
    if len(found.program.operations) < 3 or not others:
        return None
    ordered = dict.fromkeys(o.name for o in (others[0], others[-1], *others))
    for name in list(ordered)[:TRIED_PARTNERS]:
        chosen = _with_views(found.program.operations, {name, operation.name})
        if len(chosen) < len(found.program.operations) and (smaller := _of_these(graph, found, chosen)) is not None:
            return smaller
    return None


def _with_views(operations: Sequence[Operation], names: set[str]) -> set[str]:
    """The names, and those of the views that lead to them."""
    chosen = set(names)
    for operation in reversed(operations):
        if operation.name in chosen:
            chosen |= {o.name for o in operations if o.is_view and o.name in operation.reads()}
    return chosen


def _path(graph: BlockGraph, found: Fused) -> Fused | None:
    """The operations through which the first of the two ends leads to the last, if they are wrong by themselves."""
    partner = found.partner
    if partner is None:
        return None
    operations = found.program.operations
    names = [o.name for o in operations]
    first, last = sorted((found.operation.name, partner.name), key=names.index)
    after, before = {first}, {last}
    for operation in operations:
        after |= {operation.name} if after.intersection(operation.reads()) else set()
    for operation in reversed(operations):
        before |= set(operation.reads()) if operation.name in before else set()
    on_it = after & before
    return _of_these(graph, found, on_it) if last in on_it and len(on_it) < len(operations) else None


def _of_these(graph: BlockGraph, found: Fused, names: set[str]) -> Fused | None:
    """The same finding in the operations of these names alone, what they read from others fed with the CPU's values."""
    program = graph.chosen([o for o in found.program.operations if o.name in names])
    wrong = None if program is None else _wrong_at(program, found.operation, graph)
    return None if program is None or wrong is None else Fused(program, found.operation, wrong, found.stop)


def _wrong_at(program: Program, operation: Operation, graph: BlockGraph) -> Difference | None:
    """How wrong the operation's own result is in the program; None if it is right or the device refuses."""
    shown = exposing(program, graph.values)
    try:
        found = dict(zip(shown.outputs, shown.differences(), strict=True)).get(operation.name)
        return found if found is not None and found.wrong and program.compare().wrong else None
    except Refused:
        return None


def first_holding(holds: Callable[[int], bool], low: int, high: int) -> int:
    """A number above `low` for which the claim holds but not for the one below; it holds for `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _is_wrong(graph: BlockGraph, start: int, stop: int) -> bool:
    """Whether the operations are wrong as one graph; a run that the device refuses, or that yields nothing, is not."""
    program = graph.segment(start, stop)
    if program is None:
        return False
    try:
        return program.compare().wrong
    except Refused:
        return False


def _first_wrong(program: Program, graph: BlockGraph) -> Operation:
    """The first operation whose own result is wrong while all are returned; the last one if that mends it."""
    computing = program.computing or program.operations
    if len(computing) > 1:
        shown = exposing(program, graph.values)
        try:
            found = dict(zip(shown.outputs, shown.differences(), strict=True))
        except Refused:
            return computing[-1]
        return next((o for o in computing if o.name in found and found[o.name].wrong), computing[-1])
    return computing[-1]
