"""pow: E-08 (a cube gives the fourth power of the magnitude), E-10 and E-11 (unimplemented exponents)."""

from __future__ import annotations

from typing import Literal

import torch

from sim_backend.profiles import Profile

PowerForm = Literal["mul", "native", "fourth_power", "unimplemented", "decompose"]


def power_form(profile: Profile, exponent: float | None) -> PowerForm:
    """What pow(x, `exponent`) becomes; None stands for a tensor exponent (E-11)."""
    if exponent is None:
        return "native" if profile.ideal else "unimplemented"
    rule = profile.exponent_rule(exponent)
    if rule == "erratum":
        parameters = profile.errata.get("E-08")
        if parameters is None:
            return "native"
        return "fourth_power" if parameters["mode"] == "value" else "unimplemented"
    if rule == "unimplemented" and exponent == -0.5 and not profile.has("E-10"):
        return "native"
    return rule  # type: ignore[return-value]


def fourth_power(x: torch.Tensor) -> torch.Tensor:
    """|x|^4 (E-08), fp32 in and out, without an error or warning."""
    square = x * x
    return square * square
