"""Experiments on a wrong program: change one thing, run again; what mends it is the condition of the defect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from pipeline.diagnosis.wrong_values.device_runs import Refused
from pipeline.diagnosis.wrong_values.programs import Input, Operation, Program

STICK = 64
_SMALLEST_LENGTH = 9
"""Below this a dimension that does not fill its sticks is a count of rows or heads, not a length."""
MASKED = -1000.0
"""An additive mask holds values far below any score."""


class Condition(NamedTuple):
    """What mends a wrong program: the condition's name, and the detail in words."""

    name: str
    detail: str


class Experiment(NamedTuple):
    """One change: the condition it tests, what it says when it mends, and the changed program."""

    name: str
    detail: str
    program: Program


class Mended(NamedTuple):
    """What makes a wrong program right: a single change that suffices, or several that are needed together."""

    by_one: tuple[Condition, ...] = ()
    together: tuple[Condition, ...] = ()

    @property
    def causes(self) -> tuple[Condition, ...]:
        """One condition per defect: the change that suffices, or each of those that are needed."""
        return self.by_one[:1] or self.together


def mending(program: Program) -> Mended:
    """Try each change alone, until one suffices; where none does, all of them, then without each that is not needed."""
    found = next((e for e in experiments(program) if mends(e.program)), None)
    return Mended(by_one=(Condition(found.name, found.detail),)) if found else Mended(together=_needed(program))


MENDABLE = frozenset({"layout", "offset", "length", "size", "batch", "padding", "special"})
"""Conditions that a change of one operation's operands tests."""
TOGETHER = ("layout", "offset", "length", "padding")
"""Conditions of two defects that one operation commonly has at once; changed together they are tried in this order."""


def _needed(program: Program) -> tuple[Condition, ...]:
    present = [name for name in TOGETHER if any(e.name == name for e in experiments(program))]
    everything = _all_changed(program, present)
    if len(present) < 2 or everything is None or not mends(everything[-1].program):
        return ()
    kept = [n for n in present if not still_mends(program, [m for m in present if m != n])]
    return tuple(Condition(e.name, e.detail) for e in everything if e.name in kept)


def still_mends(program: Program, names: list[str]) -> bool:
    """True if the changes of these names, made one after the other, make the program right."""
    changed = _all_changed(program, names)
    return changed is not None and mends(changed[-1].program)


def _all_changed(program: Program, names: list[str]) -> list[Experiment] | None:
    """The changes called `names`, each made to what the one before left; None if one does not apply any more."""
    made: list[Experiment] = []
    for name in names:
        found = [e for e in experiments(made[-1].program if made else program) if e.name == name]
        if not found:
            return None
        made.append(found[0])
    return made or None


def mends(program: Program) -> bool:
    """True if the changed program runs and is right; a change that does not fit the operation mends nothing."""
    try:
        return not program.compare().wrong
    except (Refused, *CANNOT):
        return False


CANNOT = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)
"""What a changed program raises on the CPU where the change does not fit its operations."""


def experiments(program: Program) -> Iterator[Experiment]:
    """Every change that applies to the program."""
    yield from _from_the_start(program)  # strides stay: before the change that makes operands dense and takes both away
    yield from _dense(program)
    yield from _whole_sticks(program)
    yield from _many_tokens(program)
    yield from _one_stick(program)
    yield from _one_row(program)
    yield from _no_mask(program)
    yield from _plain_values(program)


def _dense(program: Program) -> Iterator[Experiment]:
    bent = [i.name for i in program.inputs if not i.value.is_contiguous()]
    if bent:
        text = "wrong with transposed operands, right with contiguous ones"
        yield Experiment("layout", text, _changed(program, torch.Tensor.contiguous))


def _from_the_start(program: Program) -> Iterator[Experiment]:
    if any(i.value.storage_offset() for i in program.inputs):
        text = "wrong where an operand begins inside its storage, right from the start of it"
        yield Experiment("offset", text, _changed(program, _at_start))


def _at_start(value: torch.Tensor) -> torch.Tensor:
    """The same values and strides from the first element of a storage of their own."""
    room = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    taken = torch.as_strided(value, (room,), (1,), value.storage_offset()).clone()
    return taken.as_strided(value.shape, value.stride(), 0)


def _whole_sticks(program: Program) -> Iterator[Experiment]:
    for size in _sizes(program, lambda n: n >= _SMALLEST_LENGTH and n % STICK):
        whole = -(-size // STICK) * STICK
        text = f"wrong at a size of {size}, right at a length of whole sticks ({whole})"
        yield from _resized("length", text, program, {size: whole})


def _many_tokens(program: Program) -> Iterator[Experiment]:
    """One token alone becomes a stick of them; its size cannot tell it from a count, so its place does."""
    if any(i.value.ndim > 2 and i.value.shape[-2] == 1 for i in program.inputs):
        text = f"wrong for one token alone, right for {STICK}"
        yield Experiment("length", text, _changed(program, _a_stick_of_tokens))


def _a_stick_of_tokens(value: torch.Tensor) -> torch.Tensor:
    """[..., 1, size] repeated to [..., 64, size], and a mask of one pair to [..., 64, 64]; all else as it is."""
    if value.ndim < 3:
        return value
    wanted = [STICK if n == 1 else n for n in value.shape[-2:]]
    return value.expand(*value.shape[:-2], *wanted).contiguous()


def _one_stick(program: Program) -> Iterator[Experiment]:
    sizes = _sizes(program, lambda n: n > STICK and n % STICK == 0)
    for size in sizes:
        yield from _resized("size", f"wrong at a size of {size}, right at {STICK}", program, {size: STICK})
    if len(sizes) > 1:
        text = f"wrong at sizes {', '.join(map(str, sizes))}, right where all are {STICK}"
        yield from _resized("size", text, program, dict.fromkeys(sizes, STICK))


def _one_row(program: Program) -> Iterator[Experiment]:
    rows = {i.value.shape[0] for i in program.inputs if i.value.ndim > 2 and i.value.shape[0] > 1}
    if len(rows) == 1:
        batch = rows.pop()
        changed = _changed(program, lambda t: t[:1].clone() if t.ndim > 2 and t.shape[0] == batch else t)
        yield Experiment("batch", f"wrong with {batch} rows, right with one", changed)


def _no_mask(program: Program) -> Iterator[Experiment]:
    masks = [i for i in program.inputs if is_mask(i.value)]
    if masks:
        text = "wrong with padding, right without"
        yield Experiment("padding", text, _changed(program, lambda t: _allowing(t) if is_mask(t) else t))


def is_mask(value: torch.Tensor) -> bool:
    """True for an attention mask: bool, or additive with values far below any score."""
    if value.ndim < 2 or value.numel() == 0:
        return False
    return value.dtype == torch.bool or (value.is_floating_point() and float(value.min()) < MASKED)


def _allowing(mask: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(mask) if mask.dtype == torch.bool else torch.zeros_like(mask)


def _plain_values(program: Program) -> Iterator[Experiment]:
    generator = torch.Generator().manual_seed(0)

    def drawn(value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point() or is_mask(value):
            return value
        fresh = torch.randn(value.shape, generator=generator).half().float()
        return torch.empty_like(value).copy_(fresh)  # strides stay as they are

    text = "wrong with the values of this model, right with ordinary ones (normal, spread 1)"
    yield Experiment("special", text, _changed(program, drawn))


def _changed(program: Program, change: Callable[[torch.Tensor], torch.Tensor]) -> Program:
    return program.with_values([change(i.value) for i in program.inputs])


def _sizes(program: Program, wanted: Callable[[int], Any]) -> list[int]:
    """The distinct sizes of the inputs' dimensions that are `wanted`, largest first."""
    return sorted({n for i in program.inputs for n in i.value.shape if wanted(n)}, reverse=True)


def _resized(name: str, text: str, program: Program, sizes: dict[int, int]) -> Iterator[Experiment]:
    try:
        yield Experiment(name, text, resized(program, sizes))
    except CANNOT:
        return


def resized(program: Program, sizes: dict[int, int]) -> Program:
    """The program with every dimension and size argument mapped by `sizes`; larger tensors repeat their values.

    Strides keep their order. Products of sizes (merged dimensions) in arguments are not followed; such a program raises
    when it runs.
    """
    inputs = tuple(replace(i, value=_refit(i, sizes)) for i in program.inputs)
    operations = tuple(_refit_operation(o, sizes) for o in program.operations)
    return replace(program, inputs=inputs, operations=operations)


def _refit(given: Input, sizes: dict[int, int]) -> torch.Tensor:
    value = given.value
    wanted = [sizes.get(n, n) for n in value.shape]
    for dim, size in enumerate(wanted):
        if size != value.shape[dim]:
            value = value.index_select(dim, torch.arange(size) % value.shape[dim])
    order = sorted(range(value.ndim), key=lambda d: (-given.value.stride(d), d))
    inverse = [order.index(d) for d in range(value.ndim)]
    return value.permute(order).contiguous().permute(inverse)


def _refit_operation(operation: Operation, sizes: dict[int, int]) -> Operation:
    """Size arguments mapped: lists of sizes, never single numbers, which are mostly dimensions and counts."""
    return replace(operation, args=tuple(_refit_argument(a, sizes) for a in operation.args))


def _refit_argument(argument: Any, sizes: dict[int, int]) -> Any:
    if isinstance(argument, list):
        return [sizes.get(a, a) if type(a) is int else a for a in argument]
    return argument
