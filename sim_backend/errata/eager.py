"""Defects of single eager calls, asked before every eager operation on the device.

Eager operations of 2026-05 onward are compiled ones (facts 3.1), so pow follows the same rules in both paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sim_backend.errata.operands import constant_comparison_problem
from sim_backend.errata.power import fourth_power, power_form
from sim_backend.errors import Unsupported
from sim_backend.profiles import Profile, active

COMPARISONS = {
    "eq": "equal",
    "ne": "notequal",
    "ge": "greaterequal",
    "gt": "greaterthan",
    "le": "lesserequal",
    "lt": "lesserthan",
}


def apply(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The wrong result of the eager call `op` ("aten.pow.Tensor_Scalar"), or None if the call is right.

    Raises Unsupported or RuntimeError where the defect is a refusal.
    """
    rule = _RULES.get(op)
    return rule(active(), args) if rule is not None else None


def _power(profile: Profile, args: tuple[Any, ...]) -> torch.Tensor | None:
    """E-08, E-10: pow with a scalar exponent."""
    form = power_form(profile, float(args[1]))
    if form == "unimplemented":
        raise RuntimeError("Invoked sdsc_fused_pow_0 which contains unimplemented operation pow")
    return _on_values(fourth_power, args[0]) if form == "fourth_power" else None


def _comparison(profile: Profile, args: tuple[Any, ...], op: str) -> None:
    """E-51: an integer tensor and a Python constant."""
    if problem := constant_comparison_problem(profile, COMPARISONS[op], args[0].dtype):
        raise Unsupported(problem)


def _subscript(profile: Profile, args: tuple[Any, ...]) -> None:
    """E-51: int32 subscripts."""
    indices = [i for i in args[1] if isinstance(i, torch.Tensor)]
    if profile.has("E-51") and any(i.dtype == torch.int32 for i in indices):
        raise Unsupported("type conversion from torch.int32 to torch.int64")


def _on_values(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    from sim_backend.device import ext

    result: torch.Tensor = ext.from_compute(function(ext.to_compute(x)), x.dtype)
    return result


def _comparison_rule(op: str) -> Callable[[Profile, tuple[Any, ...]], None]:
    return lambda profile, args: _comparison(profile, args, op)


_RULES: dict[str, Callable[[Profile, tuple[Any, ...]], torch.Tensor | None]] = {
    "aten.pow.Tensor_Scalar": _power,
    "aten.index.Tensor": _subscript,
    **{f"aten.{op}.Scalar": _comparison_rule(op) for op in COMPARISONS if op != "ne"},
}
