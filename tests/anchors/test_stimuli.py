"""Each published stimulus, run through public PyTorch calls, gives what the facts page says of it.

Written from the facts page alone: what a stimulus should give is never looked up in the simulator's errata. A case in
`not_modelled.yaml` is one the simulator does not show, with the reason; it has to differ from the page, or its entry is
stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from anchors.stimulus import AUG, SEP, Stimulus, load

pytestmark = pytest.mark.timeout(1600)  # the first test waits for all observations
TABLE = load()
LISTS: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("not_modelled.yaml").read_text())
NOT_MODELLED = LISTS["cases"]
ERRATA = {f"E-{n:02}" for n in range(1, 74)} - {"E-62"}


def case(profile: str, name: str) -> str:
    return f"{name}-{profile.removeprefix('profile-')}"


def is_long(stimulus: Stimulus, profile: str) -> bool:
    """September is long where it repeats August."""
    return stimulus.long or (profile == SEP and stimulus.published[SEP] == stimulus.published.get(AUG))


def marks(stimulus: Stimulus, profile: str) -> list[pytest.MarkDecorator]:
    """A listed case proves no fact."""
    proven = [pytest.mark.fact(*stimulus.facts)] if case(profile, stimulus.name) not in NOT_MODELLED else []
    return [*proven, *([pytest.mark.long] if is_long(stimulus, profile) else [])]


CASES = [
    pytest.param(profile, name, id=case(profile, name), marks=marks(s, profile))
    for name, s in TABLE.items()
    for profile in s.published
]


@pytest.mark.parametrize(("profile", "name"), CASES)
def test_a_published_stimulus_gives_what_is_published(profile: str, name: str, observations: dict[str, Any]) -> None:
    disagreement = TABLE[name].published[profile].disagreement(observations[profile][name])
    reason = NOT_MODELLED.get(case(profile, name))
    if reason is None:
        assert disagreement is None, f"{name} under {profile}: {disagreement}"
    else:
        assert disagreement, f"{name} under {profile} is modelled: take it off the list"


def test_every_listed_case_exists() -> None:
    known = {case(profile, name) for name, s in TABLE.items() for profile in s.published}
    assert NOT_MODELLED.keys() <= known


def test_every_erratum_has_a_stimulus_or_a_reason() -> None:
    shown = {fact for s in TABLE.values() for fact in s.facts if fact.startswith("E-")}
    assert ERRATA - shown == LISTS["elsewhere"].keys()
