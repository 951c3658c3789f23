"""The span step of work division: how few splits bring every tensor of an operation under the per-core limit.

Dimensions are counted in sticks along the stick and in elements otherwise; a split takes a divisor of the count, and
all splits together take at most the cores (facts 4.5). Dimensions that are summed over are not split: reductions never,
a product's K last. The later steps of the division, which only decide time, are not modelled.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from sim_backend.layouts import STICK_BYTES, elements_per_stick, is_held

MOST_CORES = 32
SPAN_LIMIT = 256 << 20  # bytes


@dataclass(frozen=True)
class Tensor:
    """A tensor of an operation: its bytes on the device, padding included, and the dimensions it has."""

    name: str
    device_bytes: int
    dims: frozenset[str]


@dataclass(frozen=True)
class Span:
    """The widest share of one core: of which tensor, how many bytes, with how many pieces per split dimension."""

    tensor: str
    span_bytes: int
    splits: Mapping[str, int]

    @property
    def fits(self) -> bool:
        """True if the hardware can address it."""
        return self.span_bytes <= SPAN_LIMIT

    @property
    def summary(self) -> str:
        """ "296.75 MB of B [2048, 151936], split {'n': 2}"."""
        return f"{self.span_bytes / (1 << 20):.2f} MB of {self.tensor}, split {dict(self.splits)}"

    @property
    def text(self) -> str:
        """The device's critical log line; MB are 2^20 bytes."""
        size = self.span_bytes / (1 << 20)
        return (
            f"per-core tensor span {size:.2f} MB of {self.tensor} exceeds hardware limit of {SPAN_LIMIT >> 20:.2f} MB"
        )


def cores_in_use(default: int = MOST_CORES) -> int:
    """SENCORES, 1 to 32, else `default` (facts 5.5). Raises ValueError for anything else."""
    text = os.environ.get("SENCORES", str(default))
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CORES:
        raise ValueError(f"SENCORES must be a number from 1 to {MOST_CORES}, not {text!r}")
    return int(text)


def widest_span(divisible: Mapping[str, int], tensors: Sequence[Tensor], cores: int) -> Span:
    """The widest span after the fewest splits that bring every tensor under the limit, or that come closest to it.

    `divisible` are the dimensions that may be split, with their counts. A tensor that lacks a dimension is held whole
    by every core that works on a piece of it.
    """
    whole = _widest({}, tensors)
    if whole.fits:
        return whole
    candidates = [_widest(splits, tensors) for splits in _splits(divisible, cores)]
    fitting = [c for c in candidates if c.fits]
    if fitting:
        return min(fitting, key=lambda c: (math.prod(c.splits.values()), c.span_bytes))
    return min(candidates, key=lambda c: c.span_bytes)


def product_span(left: Sequence[int], right: Sequence[int], dtype: torch.dtype, cores: int) -> Span:
    """`widest_span` of the matrix product of shapes [.., m, k] and [.., k, n]."""
    (m, k), n, batch = left[-2:], right[-1], math.prod(left[:-2])
    batches = frozenset(["b"]) if batch > 1 else frozenset()
    shared = frozenset() if math.prod(right[:-2]) == 1 else batches
    eps = elements_per_stick(dtype) if is_held(dtype) else STICK_BYTES // dtype.itemsize
    k_sticks, n_sticks = -(-k // eps), -(-n // eps)
    tensors = [
        Tensor(f"A {list(left)}", batch * m * k_sticks * STICK_BYTES, batches | {"m"}),
        Tensor(f"B {list(right)}", (batch if shared else 1) * k * n_sticks * STICK_BYTES, shared | {"n"}),
        Tensor(f"C {[*left[:-1], n]}", batch * m * n_sticks * STICK_BYTES, batches | {"m", "n"}),
    ]
    return widest_span({"n": n_sticks, "m": m, "b": batch}, tensors, cores)


def _widest(splits: Mapping[str, int], tensors: Sequence[Tensor]) -> Span:
    shares = [(t.device_bytes // math.prod(splits.get(d, 1) for d in t.dims), t.name) for t in tensors]
    size, name = max(shares, default=(0, ""))
    return Span(name, size, {d: n for d, n in splits.items() if n > 1})


def _splits(divisible: Mapping[str, int], cores: int) -> Iterator[dict[str, int]]:
    """Every way to split the dimensions by divisors, with at most `cores` pieces in all."""
    if not divisible:
        yield {}
        return
    (name, count), *others = divisible.items()
    for pieces in (n for n in range(1, min(count, cores) + 1) if count % n == 0):
        for rest in _splits(dict(others), cores // pieces):
            yield {name: pieces, **rest}
