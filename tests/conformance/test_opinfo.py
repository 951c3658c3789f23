"""PyTorch's OpInfo database on the device: every operation that takes float16 does what its line in YAML says.

`python tests/conformance/record.py PROFILE` prints the lines as they are now; a change is read before it is kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sim_backend.profiles import list_profiles, load_profile

from .opinfo import SAMPLES, expectations, recorded, run_share, unexpected

pytestmark = pytest.mark.fact("3.2")
AUG, SEP = "profile-2026-08", "profile-2026-09"
SHARES = {"eager": 1, "compiled": 4}  # loading the database takes as long as running half of it in eager code
# Compiled, the quick suite takes the first sample; the long one everything.
QUICK = [(AUG, "eager", SAMPLES), (SEP, "eager", SAMPLES), (AUG, "compiled", 1), (SEP, "compiled", 1)]
RUNS = [
    *[pytest.param(*run, share, id=f"{run[0]}-{run[1]}-{share}") for run in QUICK for share in range(SHARES[run[1]])],
    *[
        pytest.param(profile, form, SAMPLES, share, id=f"{profile}-{form}-all-{share}", marks=pytest.mark.long)
        for profile, form in recorded()
        if (profile, form, SAMPLES) not in QUICK
        for share in range(SHARES[form])
    ],
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("profile", "form", "samples", "share"), RUNS)
def test_every_operation_does_what_is_expected(
    profile: str, form: str, samples: int, share: int, tmp_path: Path
) -> None:
    found = run_share(profile, form, share, SHARES[form], samples, tmp_path)
    assert len(found) > 100, "hardly any operation was collected"
    assert unexpected(found, expectations(profile, form), samples) == []


@pytest.mark.parametrize(("profile", "form"), recorded())
def test_no_operation_is_expected_to_fail_by_our_fault(profile: str, form: str) -> None:
    assert profile in list_profiles()
    assert {
        op for op, outcome in expectations(profile, form).items() if "fault" in outcome or "crash" in outcome
    } == set()


@pytest.mark.fact("E-57")
def test_a_process_dies_only_in_the_profiles_whose_errata_end_it() -> None:
    dying = {profile for profile, form in recorded() if any("dies" in o for o in expectations(profile, form).values())}
    assert dying == {name for name in list_profiles() if load_profile(name).has("E-57")}
