"""Refusals that the op table holds and that the facts page counts among the errata: E-52 and E-67.

The table refuses; this only gives the refusal its number in reports.
"""

from __future__ import annotations

from sim_backend.profiles import Profile, split_op

EAGER = {"aten.clamp_min": "E-67", "aten.index_add": "E-52"}


def erratum_of_cell(profile: Profile, op: str) -> str | None:
    """The erratum by which an eager call of `op` ("aten.clamp_min.default") is refused, None for a plain gap."""
    erratum = EAGER.get(split_op(op)[0])
    return erratum if erratum is not None and profile.has(erratum) else None
