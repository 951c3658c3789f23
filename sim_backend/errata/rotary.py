"""Rotary positions: E-15 (`rotate_half`), E-16 (half a head below one stick) and E-19 (tables made on the device).

What E-16 refuses shows in the accesses of loops alone: the compiler asks about views that split the stick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.rule import Call, Operand, Rule, Wrong
from sim_backend.numerics import round_dl16
from sim_backend.profiles import Profile

CAT = frozenset(["aten.cat"])
_WAVES = {"aten.cos", "aten.sin"}


def is_switched_off(profile: Profile) -> bool:
    """True if the profile has E-16 explicitly off: such views are legal then. One without the entry keeps facts 2.4."""
    return "E-16" in profile.content["errata"] and not profile.has("E-16")


def first_half_twice(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """(-x1, x1) instead of (-x2, x1): the offset of the slice that gives x2 is dropped (E-15)."""
    return torch.cat((-inputs[1], inputs[1]), -1)


def first_part_again(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """Every part of a table read from the start of the buffer (E-19)."""
    return torch.cat([inputs[0]] * len(inputs), -1)


def rough_angles(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """Angles with the nine fraction bits of DL16, whatever their dtype (E-19)."""
    return round_dl16(result.float().contiguous()).to(result.dtype)


def _parts(call: Call) -> list[Operand]:
    """The operands of a cat along the last dimension, [] for another one."""
    parts = [p for p in call.args[0] if isinstance(p, Operand)]
    last = len(parts[0].shape) - 1 if parts else 0
    dim = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0)
    return parts if dim in (-1, last) else []


def _is_rotated_half(profile: Profile, call: Call) -> str | None:
    parts = _parts(call)
    if call.form != "compiled" or len(parts) != 2 or not parts[0].is_half or parts[0].shape != parts[1].shape:
        return None
    halves = parts[0].made_by[:2] == ("aten.neg", "aten.slice") and parts[1].made_by[:1] == ("aten.slice",)
    return f"rotate_half of {2 * parts[0].shape[-1]} lanes" if halves else None


def _is_table(profile: Profile, call: Call) -> str | None:
    parts = _parts(call)
    waves = [p.made_by[0] for p in parts if p.made_by and p.made_by[0] in _WAVES]
    made_here = "aten.arange" in call.beside or "prims.iota" in call.beside
    return "a table of cosines and sines made on the device" if len(waves) == len(parts) > 1 and made_here else None


def _is_doubled_angles(profile: Profile, call: Call) -> str | None:
    """cat((angles, angles), -1) of a product with positions made on the device."""
    parts = _parts(call)
    made_here = "aten.arange" in call.beside or "prims.iota" in call.beside
    doubled = len(parts) == 2 and parts[0] == parts[1] and parts[0].dtype.is_floating_point
    return "angles of rotary positions made on the device" if doubled and made_here else None


RULES = (
    Rule("E-15", CAT, _is_rotated_half, Wrong(first_half_twice)),
    Rule("E-19", CAT, _is_table, Wrong(first_part_again)),
    Rule("E-19", CAT, _is_doubled_angles, Wrong(rough_angles)),
)
