"""Single operations that compute wrong values: E-41 (`ne`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.rule import Call, Rule, Wrong
from sim_backend.profiles import Profile

_HASH = 2654435761  # Knuth's multiplier: spreads positions evenly, without a generator's state


def spread(elements: int, share: float) -> torch.Tensor:
    """A bool [elements] that holds at `share` of the positions, the same ones in every run."""
    mixed = (torch.arange(elements, dtype=torch.int64) * _HASH) % (1 << 32)
    return mixed.double() < share * (1 << 32)


def never_unequal(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """E-41: False where True was due, at the share of positions that was reported wrong."""
    flips = spread(result.numel(), float(parameters["wrong_share"])).reshape(result.shape)
    return result & ~flips


def _always(profile: Profile, call: Call) -> str | None:
    return f"{call.op} is mostly False"


RULES: tuple[Rule, ...] = (Rule("E-41", frozenset(["aten.ne"]), _always, Wrong(never_unequal)),)
