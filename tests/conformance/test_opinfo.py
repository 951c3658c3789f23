"""PyTorch's OpInfo database on the device: every operation that takes float16 does what its line in YAML says.

`python tests/conformance/record.py PROFILE` prints the lines as they are now; a change is read before it is kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sim_backend.profiles import list_profiles

from .opinfo import FOLDER, SAMPLES, expectations, run_share, unexpected

pytestmark = pytest.mark.fact("3.2")
SHARES = 4
QUICK = ("profile-2026-08", "profile-2026-09")
# Compiled, the quick suite takes the first sample; everything is in the long one.
RUNS = [
    *[pytest.param(profile, "eager", SAMPLES, id=f"{profile}-eager") for profile in QUICK],
    *[pytest.param(profile, "compiled", 1, id=f"{profile}-compiled") for profile in QUICK],
    *[
        pytest.param(path.stem, form, SAMPLES, id=f"{path.stem}-{form}-all", marks=pytest.mark.long)
        for path in sorted((FOLDER / "expectations").glob("*.yaml"))
        for form in ("eager", "compiled")
    ],
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize(("profile", "form", "samples"), RUNS)
def test_every_operation_does_what_is_expected(
    profile: str, form: str, samples: int, share: int, tmp_path: Path
) -> None:
    found = run_share(profile, form, share, SHARES, samples, tmp_path)
    assert len(found) > 100, "hardly any operation was collected"
    assert unexpected(found, expectations(profile, form), samples) == []


@pytest.mark.parametrize("form", ["eager", "compiled"])
@pytest.mark.parametrize("profile", [p.stem for p in sorted((FOLDER / "expectations").glob("*.yaml"))])
def test_no_operation_is_expected_to_fail_by_our_fault(profile: str, form: str) -> None:
    assert profile in list_profiles()
    assert {
        op for op, outcome in expectations(profile, form).items() if "fault" in outcome or "crash" in outcome
    } == set()
