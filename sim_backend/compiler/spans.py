"""The span rule on what a bundle holds: the widest share of one core is recorded, one above the limit aborts (E-24)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from sim_backend.compiler.division import Span, Tensor, cores_in_use, product_span, widest_span
from sim_backend.compiler.emit import Access, Emitter
from sim_backend.compiler.kernel import KernelSource, buffer_facts
from sim_backend.compiler.origins import origin_of, pick_origin
from sim_backend.compiler.rules import NodeRules
from sim_backend.compiler.session import Refusal
from sim_backend.compiler.sticks import stick_of
from sim_backend.errata.spans import EFFECT
from sim_backend.layouts import STICK_BYTES


def check_loop(kernel: KernelSource, rules: NodeRules, emitter: Emitter) -> None:
    """Hold every buffer that a loop nest reads or writes against the limit. Reduced dimensions are not split."""
    if not rules.profile.legal_sticks or rules.illegal_sticks:
        return
    kept = emitter.variables[: len(emitter.variables) - emitter.reduced]
    eps = {a.stick: stick_of(buffer_facts(a.buffer).dtype) for a in emitter.accesses if a.stick is not None}
    counts = {v.name: -(-emitter.ranges[v] // eps.get(v, 1)) for v in kept if emitter.ranges[v] > 1}
    tensors = [_tensor(a, emitter, counts) for a in emitter.accesses]
    _note(kernel, rules, widest_span(counts, tensors, cores_in_use(rules.profile.cores)), refuse=True)


def check_native(
    kernel: KernelSource, rules: NodeRules, kind: str, shapes: Sequence[Sequence[int]], dtype: torch.dtype
) -> None:
    """Products are refused by their rule (errata.spans); here their span is recorded. Others split all but the last."""
    if not rules.profile.legal_sticks or rules.illegal_sticks or not shapes or not shapes[0]:
        return
    cores = cores_in_use(rules.profile.cores)
    if kind == "mm":
        _note(kernel, rules, product_span(shapes[0], shapes[1], dtype, cores), refuse=False)
        return
    outer = {f"d{i}": n for i, n in enumerate(shapes[0][:-1]) if n > 1}
    tensors = [Tensor(f"{list(s)}", _bytes(s, dtype), _dims(s, shapes[0])) for s in shapes]
    _note(kernel, rules, widest_span(outer, tensors, cores), refuse=True)


def _note(kernel: KernelSource, rules: NodeRules, span: Span, *, refuse: bool) -> None:
    if span.span_bytes > kernel.decisions.span_bytes:
        kernel.decisions.span_bytes, kernel.decisions.span = span.span_bytes, span.summary
    if refuse and not span.fits and rules.profile.has("E-24"):
        origin = origin_of(pick_origin(rules.origins))
        rules.session.refuse(Refusal(EFFECT.kind, span.text, origin, "E-24", at_call=True, effect=EFFECT))


def _tensor(access: Access, emitter: Emitter, counts: dict[str, int]) -> Tensor:
    """What one core touches of a buffer: all of it if it is indexed by data, else what its loop variables cover."""
    facts, used = buffer_facts(access.buffer), access.index.free_symbols
    eps = stick_of(facts.dtype)
    if used - set(emitter.ranges):
        size = _bytes(facts.size, facts.dtype)
    else:
        lengths = [-(-emitter.ranges[v] // (eps if v == access.stick else 1)) for v in used]
        size = STICK_BYTES * math.prod(lengths)
    return Tensor(access.buffer, size, frozenset(v.name for v in used if v.name in counts))


def _bytes(shape: Sequence[int], dtype: torch.dtype) -> int:
    return STICK_BYTES * math.prod(shape[:-1]) * -(-shape[-1] // stick_of(dtype)) if shape else STICK_BYTES


def _dims(shape: Sequence[int], result: Sequence[int]) -> frozenset[str]:
    """The result's dimensions that an operand of `shape` has, too."""
    if len(shape) != len(result):
        return frozenset()
    return frozenset(f"d{i}" for i, (a, b) in enumerate(zip(shape[:-1], result[:-1], strict=True)) if a == b > 1)
