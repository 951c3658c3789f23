"""The policy's limits on mathematics, under the names used here. No limit is spelled in this package."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.verification.policy import current_policy


class Limits(NamedTuple):
    """`ulp` or `relative` for a claim of `exact`; for any claim `special` for finite inputs outside the domain and
    `dl16_ratio` for what is lost in 16 bits."""

    ulp: float
    relative: float
    special: float
    dl16_ratio: float


def limits() -> Limits:
    """What the current policy allows."""
    said = current_policy().mathematics
    return Limits(said["exact_ulp"], said["exact_relative"], said["special_tolerance"], said["dl16_ratio"])
