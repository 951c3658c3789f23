"""Each published stimulus, run through public PyTorch calls, gives what the facts page says of it.

Written from the facts page alone: what a stimulus should give is never looked up in the simulator's errata.
"""

from __future__ import annotations

from typing import Any

import pytest
from anchors.stimulus import load

TABLE = load()
CASES = [
    pytest.param(
        profile,
        name,
        marks=[pytest.mark.fact(*s.facts), *([pytest.mark.long] if s.long else [])],
        id=f"{s.facts[0]}-{name}-{profile.removeprefix('profile-')}",
    )
    for name, s in TABLE.items()
    for profile in s.published
]


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_a_published_stimulus_gives_what_is_published(profile: str, name: str, observations: dict[str, Any]) -> None:
    seen = observations[profile][name]
    disagreement = TABLE[name].published[profile].disagreement(seen)
    assert disagreement is None, f"{name} under {profile}: {disagreement}"
