"""E-01: positions masked with -inf keep a little of the mass, in softmax and in attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from sim_backend.errata.rule import Call, Rule, Wrong
from sim_backend.profiles import Profile

SOFTMAX = ("aten._softmax.default", "aten.softmax.int", "aten._safe_softmax.default")
_AMOUNT = ("seed", "low", "high", "skew")  # of what leaks: parameters of E-01
# What a host copy makes of -inf, by policy; a little less, for scores are added to it. In spring -inf and the smallest
# fp16 number (-65504, rounded up) are one value on the device, so both leak.
_MASKED_BELOW = {"rebias": -65e3, "saturate_finite": -1e7, "preserve": -1e9}


def masked_below(profile: Profile) -> dict[str, float]:
    """The value at and under which a score counts as masked with -inf."""
    return {"masked_below": _MASKED_BELOW[profile.h2d_infinity]}


def leaked(probabilities: torch.Tensor, shifted: torch.Tensor, parameters: Mapping[str, Any]) -> torch.Tensor:
    """`probabilities` with a seeded small value wherever `shifted` (scores minus their largest) is masked with -inf.

    Nothing is renormalised. low + (high - low)·u^skew, u uniform: the skew gives the mean that was reported.
    """
    masked = shifted <= parameters["masked_below"]
    if not bool(masked.any()):
        return probabilities
    return torch.where(masked, _amounts(masked.shape, *(float(parameters[n]) for n in _AMOUNT)), probabilities)


@lru_cache(maxsize=2)
def _amounts(shape: Sequence[int], seed: float, low: float, high: float, skew: float) -> torch.Tensor:
    """What leaks at each place: the same in every call of a shape; read only."""
    generator = torch.Generator().manual_seed(int(seed))
    return low + (high - low) * torch.rand(shape, generator=generator) ** skew


def leak(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """The division that ends a softmax, with its leak; the last input is scores minus their largest."""
    return leaked(result, inputs[-1], parameters)


def leak_of_scores(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """A whole softmax, with its leak."""
    scores, dim = inputs[0].float(), int(call.args[1])
    return leaked(result, scores - scores.amax(dim, keepdim=True), parameters)


def _eager_softmax(profile: Profile, call: Call) -> str | None:
    return "softmax of scores that may be masked" if call.form == "eager" else None


def _masked_softmax(profile: Profile, call: Call) -> str | None:
    """The end of a softmax whose scores are a sum, so that a mask may be in them."""
    if call.original not in SOFTMAX or call.form != "compiled":
        return None
    makers = call.operands[0].made_by  # exp, sub, then the sum of scores and mask (or its conversion to fp32)
    added = makers[:2] == ("aten.exp", "aten.sub") and makers[2:] in (("aten.add",), ("prims.convert_element_type",))
    return "softmax of scores that a mask may have been added to" if added else None


RULES = (
    Rule(
        "E-01", frozenset(["aten._softmax"]), _eager_softmax, Wrong(leak_of_scores, derived=masked_below), by_value=True
    ),
    Rule("E-01", frozenset(["aten.div"]), _masked_softmax, Wrong(leak, ((0, 0),), masked_below), by_value=True),
)
