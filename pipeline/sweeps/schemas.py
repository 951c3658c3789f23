"""What sweeps and coverage hand out: plain frozen values; their JSON keys are those of the commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.errors import BadInput

WeightsMode = Literal["auto", "hub", "synthetic"]
ReleasesMode = Literal["bundled", "none"]
GroupBy = Literal["family", "op", "release", "profile"]


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep runs. `tier` is the gate's: `sweep` for breadth, `full` for every oracle."""

    profile: str
    weights: WeightsMode = "auto"
    releases: ReleasesMode = "bundled"
    tier: str = "sweep"
    top: int | None = None
    request_id: str | None = None
    requester: str | None = None
    """Who asked, where somebody did: requesters take turns, and go before sweeps."""


def checked(name: str, value: str, allowed: Sequence[str]) -> Any:
    """`value` if it is one of `allowed`. Raises `BadInput` with the choices."""
    if value not in allowed:
        raise BadInput(f"{name} is {value!r}: give one of {', '.join(allowed)}.")
    return value
