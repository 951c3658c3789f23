"""The search for silent wrong values: blocks first, then the operations of a wrong one, then what fuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from adapters.errors import ShapeRefused
from pipeline.diagnosis.wrong_values.blocks import (
    BlockCall,
    BlockGraph,
    Untraceable,
    first_calls,
    graph_of,
    record_block_calls,
)
from pipeline.diagnosis.wrong_values.borders import smallest_giver
from pipeline.diagnosis.wrong_values.boundaries import Boundary, boundaries
from pipeline.diagnosis.wrong_values.compare import Difference
from pipeline.diagnosis.wrong_values.device_runs import Refused
from pipeline.diagnosis.wrong_values.experiments import (
    CANNOT,
    MASKED,
    MENDABLE,
    Condition,
    Mended,
    is_mask,
    mending,
    still_mends,
)
from pipeline.diagnosis.wrong_values.findings import (
    ALWAYS,
    Finding,
    border_finding,
    drift_finding,
    fused_finding,
    in_layers,
    merged,
    operation_findings,
    reading_through,
    unexplained_finding,
)
from pipeline.diagnosis.wrong_values.fusion import Fused, smallest_ending, smallest_wrong
from pipeline.diagnosis.wrong_values.narrow import searched_in
from pipeline.diagnosis.wrong_values.outside import outside_findings, outside_modules, record_parts
from pipeline.diagnosis.wrong_values.programs import Operation, Program
from pipeline.diagnosis.wrong_values.reference import bad_reference
from pipeline.diagnosis.wrong_values.rounding import UNIT
from pipeline.diagnosis.wrong_values.suspects import suspects
from pipeline.verification.policy import current_policy

Blocks = list[tuple[str, torch.nn.Module]]


class Unsearched(NamedTuple):
    """A block that the device refuses for one kind of input: in it and behind it nothing could be looked for."""

    input: str
    block: str
    reason: str


@dataclass
class Search:
    """The answer: causes merged over layers and inputs, the error curve per kind of input, what was not searched."""

    findings: list[Finding] = field(default_factory=list)
    curves: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unsearched: list[Unsearched] = field(default_factory=list)


class _Tested(NamedTuple):
    """The outcome of one operation alone."""

    difference: Difference
    mended: Mended


def silent_causes(
    model: torch.nn.Module,
    blocks: Blocks,
    variants: Mapping[str, Mapping[str, torch.Tensor]],
    rare: Mapping[str, Mapping[str, torch.Tensor]] | None = None,
    dtype: torch.dtype = torch.float16,
) -> Search:
    """What the device gets wrong in silence, over several kinds of input (`variants`: name to host inputs).

    `model` is on the CPU in fp32, its loud causes cured. A block that the device refuses is noted in `unsearched`. Of
    `rare` kinds of input only the first block of each class is compared: what depends on padding or length shows there.
    `dtype` is the 16-bit one that the model's code sees on the device.
    """
    with searched_in(dtype):
        return _search(model, blocks, variants, rare or {})


def _search(
    model: torch.nn.Module,
    blocks: Blocks,
    variants: Mapping[str, Mapping[str, torch.Tensor]],
    rare: Mapping[str, Mapping[str, torch.Tensor]],
) -> Search:
    search, looker, found = Search(), _Looker(), []  # type: Search, _Looker, list[Finding]
    apart = outside_modules(model, [path for path, _ in blocks])
    for variant, inputs in variants.items():
        curve: list[Boundary] = []
        calls = record_block_calls(model, blocks, dict(inputs))
        reference = bad_reference(calls, variant)
        found += [reference] if reference else []
        try:
            curve.extend(boundaries(calls, real_tokens(inputs)))
        except Refused as refused:
            search.unsearched.append(Unsearched(variant, calls[len(curve)].path, refused.words))
        search.curves[variant] = [b.point() for b in curve]
        found += merged(list(looker.judge(curve, variant)))
        found += merged(list(outside_findings(record_parts(model, apart, dict(inputs)), variant)))
    for variant, inputs in rare.items():
        found += merged(list(_of_rare(model, blocks, inputs, variant, looker, search)))
    search.findings = merged(found, add=False)
    return search


HOST_CANNOT = (IndexError, RuntimeError, ValueError, ShapeRefused)
"""What a model raises on the host for more tokens than it has positions, or a padding side it does not know."""


def _of_rare(
    model: torch.nn.Module,
    blocks: Blocks,
    inputs: Mapping[str, torch.Tensor],
    variant: str,
    looker: _Looker,
    search: Search,
) -> Iterator[Finding]:
    """The causes that show in the first block of each class; none where the model cannot run the input on the host."""
    torch._dynamo.reset()  # another size of the same code is another graph, and their number is limited
    try:
        calls = first_calls(model, blocks, dict(inputs))
    except HOST_CANNOT:
        return
    for call in map(all_seeing, calls):
        try:
            curve = list(boundaries([call], real_tokens(inputs)))
        except Refused as refused:
            search.unsearched.append(Unsearched(variant, call.path, refused.words))
        else:
            yield from looker.judge(curve, variant, is_whole=False)


def all_seeing(call: BlockCall) -> BlockCall:
    """The call with masks under which no token sees nothing: what attention gives such a token is nobody's fault.

    A causal model that is padded on the left has such tokens, all of them padding.
    """

    def seeing(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not is_mask(value):
            return value
        hidden = ~value if value.dtype == torch.bool else value < MASKED
        allowed = torch.ones((), dtype=value.dtype) if value.dtype == torch.bool else torch.zeros((), dtype=value.dtype)
        return torch.where(hidden.all(-1, keepdim=True), allowed, value)

    return call.fed_with(*pytree.tree_map(seeing, (call.args, call.kwargs)))


def real_tokens(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """True for tokens that are no padding, [batch, length]; None where the inputs do not say."""
    mask = inputs.get("attention_mask")
    return mask.bool() if mask is not None and mask.ndim == 2 else None


def _drifts(last: Boundary) -> bool:
    return not last.total <= current_policy().diagnosis["accumulated"] * max(last.ideal, UNIT)  # true for NaN


def _wrong_kinds(curve: Sequence[Boundary]) -> list[tuple[Boundary, int]]:
    """The first wrong block of each class, with how many of its class are wrong."""
    kinds: dict[type, list[Boundary]] = {}
    for boundary in curve:
        if boundary.own.wrong:
            kinds.setdefault(type(boundary.call.block), []).append(boundary)
    return [(found[0], len(found)) for found in kinds.values()]


class _Looker:
    """Looks into wrong blocks. Remembers operations it has tried, and what it found at each place of a block."""

    def __init__(self) -> None:
        self._tested: dict[Any, _Tested | None] = {}
        self._known: dict[tuple[type, int], tuple[Finding, ...]] = {}

    def judge(self, curve: Sequence[Boundary], variant: str, *, is_whole: bool = True) -> Iterator[Finding]:
        """The causes that one walk over the blocks shows; errors accumulate over a whole one only."""
        wrong = _wrong_kinds(curve)
        for boundary, layers in wrong:
            try:
                causes = list(self._inside(boundary, variant)) or [_of_the_whole(boundary, variant)]
            except Untraceable as error:
                causes = [unexplained_finding(boundary, variant, f"and cannot be traced: {error}")]
            yield from (in_layers(cause, layers) for cause in causes)
        borders = [(a, b) for a, b in pairwise(curve) if b.handed is not None and b.handed.wrong]
        if borders:
            before, after = borders[0]
            yield in_layers(border_finding(after, _giver(before), variant), len(borders))
        if is_whole and curve and not wrong and not borders and _drifts(curve[-1]):
            yield from list(self._behind_drift(curve, variant)) or [drift_finding(curve, variant)]

    def _behind_drift(self, curve: Sequence[Boundary], variant: str) -> Iterator[Finding]:
        """Wrong operations in a block that is further off than drift may be, though not enough to be wrong itself."""
        limit = current_policy().diagnosis["accumulated"]
        worst = max(curve, key=lambda b: b.own.ratio)
        if worst.own.ratio > limit:
            with suppress(Untraceable):
                yield from self._suspected(graph_of(worst.call), variant)

    def _inside(self, boundary: Boundary, variant: str) -> Iterator[Finding]:
        """The wrong operations of one block, and what is wrong only fused.

        Suspects of the whole block are tried by themselves, then what lies beside them: a suspect that explains much
        must not hide what is wrong only fused. Without a suspect the smallest wrong run is searched, and without that
        each operation. What is wrong as it was for earlier inputs is not looked into again.
        """
        graph = graph_of(boundary.call)
        size, suspected = len(graph.operations), list(self._suspected(graph, variant))
        yield from suspected
        if suspected:
            yield from self._beside(graph, variant)
            return
        found = list(self._stretch(graph, 0, size, variant))
        for position in () if found else range(size):
            found += self._operation(graph.operations[position], graph.single(position), graph, variant)
        yield from found

    def _beside(self, graph: BlockGraph, variant: str) -> Iterator[Finding]:
        """What is wrong in the stretches before, between and behind the operations known to be wrong."""
        known = sorted(n for kind, n in self._known if kind is graph.kind)
        for start, stop in pairwise([-1, *known, len(graph.operations)]):
            yield from self._stretch(graph, start + 1, stop, variant)

    def _suspected(self, graph: BlockGraph, variant: str) -> Iterator[Finding]:
        """The causes at suspects of the whole block."""
        for position in suspects(graph):
            known = self._known.get((graph.kind, position))
            if known is None or not self._still_is(known, graph, position):
                known = _not_contradicting(known, tuple(self._at(graph, position, variant)))
                self._remember(graph, position, known)
            yield from known

    def _remember(self, graph: BlockGraph, position: int, found: Sequence[Finding]) -> None:
        if found:
            self._known[graph.kind, position] = tuple(found)

    def _still_is(self, known: tuple[Finding, ...], graph: BlockGraph, position: int) -> bool:
        """True if the operation is wrong for these inputs under the conditions known of it, and no others."""
        program, names = graph.single(position), [str(f.failure.scalars[0]) for f in known]
        return program is None or not MENDABLE.issuperset(names) or still_mends(program, names)

    def _at(self, graph: BlockGraph, position: int, variant: str) -> Iterator[Finding]:
        """What is wrong at one suspect: the operation alone, or the smallest run that ends with it.

        A run begins behind the last operation known to be wrong: that would spoil it.
        """
        alone = list(self._operation(graph.operations[position], graph.single(position), graph, variant))
        yield from alone
        start = max((n + 1 for kind, n in self._known if kind is graph.kind and n < position), default=0)
        if not alone and (fused := smallest_ending(graph, start, position + 1)) is not None:
            yield from self._of_run(fused, graph, variant)

    def _of_run(self, fused: Fused, graph: BlockGraph, variant: str) -> Iterator[Finding]:
        if len(fused.program.computing) == len(fused.program.operations) == 1:
            yield from self._operation(fused.operation, fused.program, graph, variant)
        else:
            yield from _fusion(fused, variant)

    def _operation(
        self, operation: Operation, program: Program | None, graph: BlockGraph, variant: str
    ) -> Iterator[Finding]:
        outcome = None if program is None else self._alone(program)
        if program is not None and outcome is not None and outcome.difference.wrong:
            for found in operation_findings(operation, program, outcome.difference, outcome.mended, variant):
                yield reading_through(found, graph.views_before(operation))

    def _stretch(self, graph: BlockGraph, start: int, stop: int, variant: str) -> Iterator[Finding]:
        """Every smallest wrong run of a stretch, from its beginning to its end."""
        while (fused := smallest_wrong(graph, start, stop)) is not None:
            found = list(self._of_run(fused, graph, variant))
            self._remember(graph, graph.operations.index(fused.operation), found)
            yield from found
            start = fused.stop

    def _alone(self, program: Program) -> _Tested | None:
        """The outcome of one operation alone, once per distinct operation; None if the device refuses it."""
        key = program.signature()
        if key not in self._tested:
            try:
                found = program.compare()
            except Refused:
                self._tested[key] = None
            else:
                self._tested[key] = _Tested(found, mending(program) if found.wrong else Mended())
        return self._tested[key]


def _not_contradicting(known: tuple[Finding, ...] | None, new: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """What is new at a place, unless it says no more than that nothing mends it there.

    An operation that was wrong under a condition is right without it: one token alone cannot be made longer.
    """
    return known if known and new and all(f.failure.scalars[0] == ALWAYS.name for f in new) else new


def _of_the_whole(boundary: Boundary, variant: str) -> Finding:
    """A wrong block without a wrong operation: wrong only in company of other rows, or unexplained."""
    if only_in_company(boundary):
        why = "in company of other rows, right for the first row alone"
        return unexplained_finding(boundary, variant, why, cause="batch")
    return unexplained_finding(boundary, variant)


def only_in_company(boundary: Boundary) -> bool:
    """True if the block is right for the first row of its batch alone."""
    alone = first_row(boundary.call)
    try:
        return alone is not None and not next(boundaries([alone])).own.wrong
    except (Refused, *CANNOT):
        return False


def first_row(call: BlockCall) -> BlockCall | None:
    """The same call with the first row of its batch; None where there is one row only."""
    rows = call.output.shape[0]
    if rows < 2:
        return None

    def cut(value: Any) -> Any:
        whole = isinstance(value, torch.Tensor) and value.ndim > 0 and value.shape[0] == rows
        return value[:1].contiguous() if whole else value

    args, kwargs = pytree.tree_map(cut, (call.args, call.kwargs))
    return BlockCall(call.path, call.block, args, kwargs, call.output[:1])


def _giver(boundary: Boundary) -> Program | None:
    try:
        return smallest_giver(graph_of(boundary.call))
    except Untraceable:
        return None


def _fusion(fused: Fused, variant: str) -> Iterator[Finding]:
    """One operation that reads through views is wrong for an offset or a layout; several are wrong as a fusion."""
    partner = fused.partner
    if partner is not None:
        yield fused_finding(fused.operation, partner, fused.program, fused.difference, variant)
        return
    condition = _through_views(fused.program.operations)
    mended = Mended(by_one=(condition,))
    yield from operation_findings(fused.operation, fused.program, fused.difference, mended, variant)


def _through_views(operations: Sequence[Operation]) -> Condition:
    views = [o.op for o in operations if o.is_view]
    name = "offset" if any(o.may_offset for o in operations) else "layout"
    return Condition(name, f"right on a copy, wrong when it reads through {', '.join(views)} in one graph")
