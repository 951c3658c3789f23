"""Why each value of a profile that no source states is what it is: `parameters.yaml`, one entry a parameter.

A parameter is a key of the tables numerics, limits, copies, runtime and clock, or a cell of the op table that the facts
page marks "?" ("ops.aten.roll", eager and compiled together).
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, TypedDict

import yaml

from sim_backend.profiles.profile import Profile


class Documented(TypedDict):
    """The value in one profile, the base's default, the reason with the fact cited, and what a wrong value would do."""

    value: Any
    default: Any
    reason: str
    sensitivity: str


def parameters_of(profile: Profile) -> dict[str, Documented]:
    """Dotted path -> documented value, for every parameter that `profile` has."""
    content = profile.to_dict()
    found: dict[str, Documented] = {}
    for path, entry in documented().items():
        table, _, key = path.partition(".")
        if key in content.get(table, {}):
            found[path] = Documented(
                value=content[table][key],
                default=entry["default"],
                reason=entry["reason"],
                sensitivity=entry["sensitivity"],
            )
    return found


@cache
def documented() -> dict[str, Any]:
    """Dotted path -> {default, reason, sensitivity}."""
    text = resources.files("sim_backend.profiles").joinpath("parameters.yaml").read_text(encoding="utf-8")
    entries: dict[str, Any] = yaml.safe_load(text)
    return entries
