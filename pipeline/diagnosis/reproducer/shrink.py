"""Makes a failing program smaller: fewer rows, shorter dimensions, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline.diagnosis.wrong_values.experiments import CANNOT, STICK, resized
from pipeline.diagnosis.wrong_values.programs import Program

Fails = Callable[[Program], bool]


def shrunk(program: Program, fails: Fails) -> Program:
    """The smallest program met that still fails: all smaller sizes at once, else each by itself, the largest first."""
    sizes = list(_sizes(program))
    at_once = {size: smaller for change in sizes for size, smaller in change.items()}
    if len(sizes) > 1 and (small := _if_fails(program, at_once, fails)) is not None:
        return small
    for smaller in sizes:
        program = _if_fails(program, smaller, fails) or program
    return program


def _if_fails(program: Program, smaller: dict[int, int], fails: Fails) -> Program | None:
    """The program with smaller sizes; None where it does not fail any more."""
    try:
        tried = resized(program, smaller)
        return tried if fails(tried) else None
    except CANNOT:
        return None


def _sizes(program: Program) -> Iterator[dict[int, int]]:
    """Maps of one size to a smaller one: two sticks or one for whole sticks, one row for a batch."""
    sizes = sorted({n for i in program.inputs for n in i.value.shape}, reverse=True)
    for size in sizes:
        if size > STICK and size % STICK == 0:
            yield {size: STICK}
        elif size > STICK:
            yield {size: size % STICK + STICK if size > 2 * STICK else size % STICK}
    rows = {i.value.shape[0] for i in program.inputs if i.value.ndim > 2 and 1 < i.value.shape[0] < STICK}
    yield from ({n: 1} for n in sorted(rows, reverse=True))


def elements(program: Program) -> int:
    """How many elements the program is fed with."""
    return sum(i.value.numel() for i in program.inputs)
