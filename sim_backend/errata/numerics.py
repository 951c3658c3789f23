"""Single operations with wrong values: E-20 (masks), E-41 (`ne`), E-46 (log), E-47 (softplus), E-58, E-63."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sim_backend.errata.rule import Call, Rule, Within, Wrong
from sim_backend.profiles import Profile

_HASH = 2654435761  # Knuth's multiplier: spreads positions evenly, without a generator's state
LOG_OF_NAN, LOG_OF_NEGATIVE = 11.5, 16.1562
GTE_QWEN2_DOWN = (8960, 1536)  # the down-projection of GTE-Qwen2-1.5B
_RANK_OF_LOG = 5


def spread(elements: int, share: float) -> torch.Tensor:
    """A bool [elements] that holds at `share` of the positions, the same ones in every run."""
    mixed = (torch.arange(elements, dtype=torch.int64) * _HASH) % (1 << 32)
    return mixed.double() < share * (1 << 32)


def never_unequal(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """False where True was due, at the share of positions that was reported wrong (E-41)."""
    flips = spread(result.numel(), float(parameters["wrong_share"])).reshape(result.shape)
    return result & ~flips


def finite_log(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """Finite values for NaN and negatives; in rank 5 the logarithm of 1 is not 0 (E-46)."""
    x = inputs[0]
    result = torch.where(x < 0, LOG_OF_NEGATIVE, torch.where(x.isnan(), LOG_OF_NAN, result))
    return torch.where(x == 1, float(parameters["log_of_one"]), result) if x.dim() == _RANK_OF_LOG else result


def softplus_of_one(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """softplus with beta taken for 1 (E-47)."""
    return torch.nn.functional.softplus(inputs[0])


def floor_of_minus_zero(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """floor(-0.0) is -1 (E-58)."""
    return torch.where((inputs[0] == 0) & inputs[0].signbit(), -1.0, result)


def ceil_of_zero(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """ceil is -floor(-x), so ceil(0.0) is 1 (E-58)."""
    return torch.where((inputs[0] == 0) & ~inputs[0].signbit(), 1.0, result)


def drifted(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """Every element off by the same share of the row's root mean square, up or down (E-63)."""
    sign = torch.where(spread(result.numel(), 0.5).reshape(result.shape), 1.0, -1.0)
    size = result.pow(2).mean(-1, keepdim=True).sqrt()
    return result + sign * size * float(parameters["relative_error"])


def _always(profile: Profile, call: Call) -> str | None:
    return f"{call.op} is mostly False"


def _of_half(profile: Profile, call: Call) -> str | None:
    return f"{call.op} of values that may be special" if call.operands[0].is_half else None


def _rescaled(profile: Profile, call: Call) -> str | None:
    beta = call.args[1] if len(call.args) > 1 else call.kwargs.get("beta", 1)
    return f"softplus with beta {beta}" if float(beta) != 1 else None


def _gte_qwen2(profile: Profile, call: Call) -> str | None:
    return "the down-projection of GTE-Qwen2-1.5B" if call.operands[-1].shape == GTE_QWEN2_DOWN else None


def _two_masks(profile: Profile, call: Call) -> str | None:
    """E-20: a sum of two bf16 tensors, each of which may hold -inf."""
    both = len(call.operands) == 2 and all(o.dtype == torch.bfloat16 for o in call.operands)
    return "a sum of two bf16 tensors that may both be -inf" if both else None


RULES = (
    # The copy makes -inf the largest constant, whose double is beyond the range: nothing is put in, only asked.
    Rule("E-20", frozenset(["aten.add"]), _two_masks, Within(lambda profile, call: {}), by_value=True),
    Rule("E-41", frozenset(["aten.ne"]), _always, Wrong(never_unequal)),
    Rule("E-46", frozenset(["aten.log"]), _of_half, Wrong(finite_log), by_value=True),
    Rule("E-47", frozenset(["aten.softplus"]), _rescaled, Wrong(softplus_of_one)),
    Rule("E-58", frozenset(["aten.floor"]), _of_half, Wrong(floor_of_minus_zero), by_value=True),
    Rule("E-58", frozenset(["aten.ceil"]), _of_half, Wrong(ceil_of_zero), by_value=True),
    Rule("E-63", frozenset(["aten.mm", "aten.addmm"]), _gte_qwen2, Wrong(drifted)),
)
