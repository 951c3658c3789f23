"""The second executor's own arithmetic: rounding by the bit-level codes, accumulation written out step by step.

Values are CPU tensors; DL16 ones are float32 on the DL16 grid. Nothing of the compiler, its runtime or its sums is
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sim_backend.numerics import decode, encode
from sim_backend.profiles import Profile

CONSTANT_LIMIT = 0x7DFF
_MERGED = 0x7FFF


def rounded(value: Tensor) -> Tensor:
    """`value` (any floating dtype) as DL16 values."""
    return decode(encode(value.to(torch.float32)))


def constant(value: float) -> float:
    """A scalar as the encoder of constants leaves it: rounded, at most 0x7DFF in magnitude."""
    code = int(encode(torch.tensor([value], dtype=torch.float32)).item())
    magnitude = min(code & 0x7FFF, CONSTANT_LIMIT) if value == value else _MERGED
    signed = magnitude - 0x8000 if code < 0 else magnitude
    return float(decode(torch.tensor([signed], dtype=torch.int16)).item())


def ulps(a: Tensor, b: Tensor) -> Tensor:
    """Steps between DL16 values: 0 between NaNs, 65,536 between NaN and a number."""
    steps = [_position(t) for t in (a, b)]
    nans = [t.isnan() for t in (a, b)]
    distance = (steps[0] - steps[1]).abs()
    return torch.where(nans[0] | nans[1], torch.where(nans[0] & nans[1], 0, 1 << 16), distance)


def _position(value: Tensor) -> Tensor:
    codes = encode(value.to(torch.float32)).to(torch.int64)
    magnitude = codes & 0x7FFF
    return torch.where(codes < 0, -magnitude, magnitude)


@dataclass(frozen=True)
class Accumulator:
    """Sums as the profile's accumulation policy orders them (facts 1.6)."""

    policy: str
    chunk: int

    @classmethod
    def of(cls, profile: Profile) -> Accumulator:
        """The accumulator of `profile`."""
        return cls(profile.numerics["reduction_accumulation"], int(profile.numerics["reduction_chunk"]))

    def sum(self, value: Tensor, dims: Sequence[int] | None, keepdim: bool) -> Tensor:
        """The DL16 sum over `dims` (None or empty: all)."""
        reduced = sorted(d % value.dim() for d in dims) if dims else list(range(value.dim()))
        kept = [d for d in range(value.dim()) if d not in reduced]
        rows = value.permute(*kept, *reduced).reshape([value.shape[d] for d in kept] + [-1])
        total = self._total(list(rows.unbind(-1)))
        return total.reshape([1 if d in reduced else n for d, n in enumerate(value.shape)]) if keepdim else total

    def _total(self, elements: list[Tensor]) -> Tensor:
        if self.policy == "fp32":
            return rounded(torch.stack(elements, -1).sum(-1))
        if self.policy == "serial":
            return _in_turn(elements)
        chunks = [elements[i : i + self.chunk] for i in range(0, len(elements), self.chunk)]
        return _in_turn([_tree(chunk, self.chunk) for chunk in chunks])


def _in_turn(elements: list[Tensor]) -> Tensor:
    total = elements[0]
    for element in elements[1:]:
        total = rounded(total + element)
    return total


def _tree(lanes: list[Tensor], width: int) -> Tensor:
    """Lane i and lane i + half are added, until one is left; missing lanes are zero."""
    values = torch.stack(lanes + [torch.zeros_like(lanes[0])] * (width - len(lanes)))
    while len(values) > 1:
        half = len(values) // 2
        values = rounded(values[:half] + values[half:])
    return values[0]
