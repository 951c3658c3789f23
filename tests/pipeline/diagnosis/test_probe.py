"""The probe names each silent defect's operation and cause by values alone, and nothing on a device without defects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SDPA = "aten.scaled_dot_product_attention.default"
BORDER = ("block", "border")
COMMON = {(SDPA, "layout"), (SDPA, "length"), BORDER}
FOUND = {
    "profile-2026-08": COMMON | {("aten.pow.Tensor_Scalar", "value")},
    "profile-2026-09": COMMON,
    "profile-ideal": set(),
}


def causes(profile: str) -> list[list[str]]:
    script = Path(__file__).with_name("probe_tiny.py")
    done = subprocess.run([sys.executable, str(script), profile], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("profile", FOUND)
def test_the_silent_causes_of_a_profile_are_found(profile: str) -> None:
    found = causes(profile)
    assert {(op, cause) for op, cause, _, _ in found} == FOUND[profile]
    for op, _, source, module in found:
        assert source.split(":")[0] in {"modeling_bert.py", "activations.py"}, op
        assert module.startswith("encoder.layer.*")
