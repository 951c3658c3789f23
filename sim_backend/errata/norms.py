"""LayerNorm: E-12 (no weights), E-13 (small shapes), E-14 (rows of nearly one value)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.rule import Abort, Call, Rule, Within, Wrong
from sim_backend.profiles import Profile

LAYER_NORM = frozenset(["aten.native_layer_norm"])


def constant(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """The same value everywhere (E-12)."""
    return result * 0 + float(parameters["value"])


def _without_weights(profile: Profile, call: Call) -> str | None:
    return "LayerNorm without weight and bias" if call.args[2] is None and call.args[3] is None else None


def _small(profile: Profile, call: Call) -> str | None:
    shape = call.operands[0].shape
    small = math.prod(shape) < int(profile.errata["E-13"]["elements_below"])
    return f"LayerNorm of {list(shape)}" if small else None


def _one_pass(profile: Profile, call: Call) -> str | None:
    """In DL16 alone: fp32 has the bits for mean and E[x²] in one pass."""
    return "variance as E[x²] - mean²" if call.operands[0].is_half else None


def _unclamped(profile: Profile, call: Call) -> bool:
    return True


RULES = (
    Rule("E-13", LAYER_NORM, _small, Abort("data_connect zero_sfp_lrf does not have any producer")),
    Rule("E-12", LAYER_NORM, _without_weights, Wrong(constant)),
    Rule("E-14", LAYER_NORM, _one_pass, Within(_unclamped), by_value=True),
)
