"""pow: E-08 (a cube gives the fourth power), E-09 (native in fp32), E-10 and E-11 (unimplemented exponents)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from sim_backend.errata.numerics import spread
from sim_backend.errata.rule import Call, Rule, Unimplemented, Wrong
from sim_backend.profiles import Profile

PowerForm = Literal["mul", "native", "cube", "unimplemented", "decompose"]
POW = frozenset(["aten.pow"])


def power_form(profile: Profile, exponent: float | None) -> PowerForm:
    """What pow(x, `exponent`) becomes; None stands for a tensor exponent (E-11). "cube": a product that E-08 spoils."""
    if exponent is None:
        return "unimplemented" if profile.has("E-11") else "native"
    rule = profile.exponent_rule(exponent)
    if rule == "erratum":
        mode = profile.errata.get("E-08", {}).get("mode")
        return {"value": "cube", "raise": "unimplemented"}.get(str(mode), "native")  # type: ignore[return-value]
    if rule == "unimplemented" and exponent == -0.5 and not profile.has("E-10"):
        return "native"
    return rule  # type: ignore[return-value]


def is_unimplemented_power(profile: Profile, op: str, args: Sequence[Any]) -> bool:
    """True if `op` is pow with a scalar exponent that the op table has no form for."""
    is_scalar = op == "aten.pow.Tensor_Scalar"
    return is_scalar and power_form(profile, float(args[1])) == "unimplemented"


def fourth_power(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """|x|^4 (E-08), without an error or warning."""
    square = inputs[0] * inputs[0]
    return square * square


def another_lane(
    result: torch.Tensor, inputs: Sequence[torch.Tensor], call: Call, parameters: Mapping[str, Any]
) -> torch.Tensor:
    """The value of the next lane, at the share of positions that was reported wrong (E-09)."""
    wrong = spread(result.numel(), float(parameters["wrong_share"])).reshape(result.shape)
    return torch.where(wrong, result.roll(1, -1), result)


def _exponent(call: Call) -> float | None:
    exponent = call.args[1] if call.op == "aten.pow.Tensor_Scalar" else None
    return float(exponent) if isinstance(exponent, int | float) else None


def _is_cube(profile: Profile, call: Call) -> bool:
    exponent = _exponent(call)
    return exponent is not None and profile.exponent_rule(exponent) == "erratum"


def _cube_is_wrong(profile: Profile, call: Call) -> str | None:
    wrong = _is_cube(profile, call) and profile.errata["E-08"]["mode"] == "value"
    return "pow(x, 3) gives |x|^4" if wrong else None


def _cube_is_refused(profile: Profile, call: Call) -> str | None:
    refused = _is_cube(profile, call) and profile.errata["E-08"]["mode"] == "raise"
    return "pow(x, 3) is unimplemented" if refused else None


def _native_in_fp32(profile: Profile, call: Call) -> str | None:
    exponent = _exponent(call)
    native = exponent is not None and profile.exponent_rule(exponent) == "native"
    return "native pow of fp32" if native and call.operands[0].dtype == torch.float32 else None


def _inverse_root(profile: Profile, call: Call) -> str | None:
    return "pow(x, -0.5) is unimplemented" if _exponent(call) == -0.5 else None


def _tensor_exponent(profile: Profile, call: Call) -> str | None:
    works = call.form == "eager" and profile.cell(call.op, "eager") == "S"  # 2025-11 has a graph of one pow (facts 3.2)
    return None if works or call.op == "aten.pow.Tensor_Scalar" else "pow with a tensor exponent is unimplemented"


RULES = (
    Rule("E-08", POW, _cube_is_wrong, Wrong(fourth_power)),
    Rule("E-08", POW, _cube_is_refused, Unimplemented("pow")),
    Rule("E-09", POW, _native_in_fp32, Wrong(another_lane)),
    Rule("E-10", POW, _inverse_root, Unimplemented("pow")),
    Rule("E-11", POW, _tensor_exponent, Unimplemented("pow")),
)
