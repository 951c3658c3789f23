"""How far device values are from the CPU's, measured against what 16-bit rounding of the same operations explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pipeline.diagnosis.wrong_values.device_runs import DEVICE_MAX
from pipeline.diagnosis.wrong_values.rounding import UNIT, Mode, ideal_run
from pipeline.verification.policy import current_policy


@dataclass(frozen=True)
class Difference:
    """`error` is the norm of the difference over the CPU's norm, `explained` that of an ideal 16-bit run.

    `finite` is false if the device's result is not and the CPU's is.
    """

    error: float
    explained: float
    finite: bool = True

    @property
    def wrong(self) -> bool:
        """True beyond what 16-bit rounding explains: sums in 16-bit parts and several roundings inside one device
        operation cost up to three bits, what is wrong costs far more."""
        return not self.finite or self.ratio > current_policy().diagnosis["explained"]

    @property
    def ratio(self) -> float:
        """The error in units of what rounding explains."""
        return self.error / max(self.explained, UNIT / 2)

    def text(self) -> str:
        """For messages."""
        if not self.finite:
            return "not finite where the CPU is"
        return f"relative error {self.error:.2g}, 16-bit rounding explains {self.explained:.2g}"


def relative(values: torch.Tensor, reference: torch.Tensor) -> float:
    """Norm of the difference over the reference's norm; bools count as 0 and 1."""
    wanted = reference.double()
    size = float(wanted.norm())
    off = float((values.double() - wanted).norm())
    return off / size if size else min(off, 1.0)


def difference(got: torch.Tensor, cpu: torch.Tensor, ideal: Sequence[torch.Tensor]) -> Difference:
    """Compare one result with the CPU's; `ideal` are the results of ideal runs, one per rounding mode.

    Where the CPU's value is not finite or beyond the device's range (the fill of a mask), no device value is right or
    wrong: what becomes of it shows in the operation that reads it.
    """
    known = torch.isfinite(cpu) & (cpu.float().abs() < DEVICE_MAX)
    if bool((known & ~torch.isfinite(got)).any()):
        return Difference(float("inf"), 0.0, finite=False)
    kept = [torch.where(known, t, torch.zeros_like(t)) for t in (got.to(cpu.dtype), cpu, *ideal)]
    return Difference(relative(kept[0], kept[1]), max(relative(t, kept[1]) for t in kept[2:]))


def worst(found: Sequence[Difference]) -> Difference:
    """The difference that explains least; of nothing compared, none."""
    return max(found, key=lambda d: d.ratio if d.finite else float("inf"), default=Difference(0.0, 0.0))


def ideal_results(function: Callable[..., Any], values: Any) -> list[Any]:
    """The ideal 16-bit runs of `function`, one per rounding mode."""
    return [ideal_run(function, values, mode) for mode in Mode]
