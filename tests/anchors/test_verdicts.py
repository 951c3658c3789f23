"""The published verdicts on embedding checkpoints (facts 7.7) come out once the workarounds are applied by hand.

Stock-shaped models of the public sizes with calibrated synthetic weights, reduced depth where `checkpoints` says so,
profile-2026-08. Passing means what it meant there: per-token cosine of at least 0.99 against the CPU.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from anchors.children import run
from anchors.verdicts.checkpoints import CHECKPOINTS

pytestmark = [pytest.mark.fact("7.7", "6.8"), pytest.mark.timeout(1800)]

PASSING_COSINE = 0.99
QUICK = [c.name for c in CHECKPOINTS if c.quick]
LONG = [c.name for c in CHECKPOINTS if not c.quick and c.passes]


def measured(*arguments: str) -> dict[str, Any]:
    printed = run("anchors.verdicts.run", *arguments, profile="profile-2026-08", timeout_s=1700)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def test_quick_checkpoints_that_passed_pass() -> None:
    lowest = {name: result["lowest"] for name, result in measured(*QUICK).items()}
    assert len(lowest) == len(QUICK) > 0
    assert {name: cosine for name, cosine in lowest.items() if not cosine >= PASSING_COSINE} == {}


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_a_checkpoint_that_passed_passes(name: str) -> None:
    assert measured(name)[name]["lowest"] >= PASSING_COSINE


@pytest.mark.long
@pytest.mark.fact("E-63")
def test_gte_qwen2_runs_and_drifts() -> None:
    """The drift is no independent finding: E-63 is a rule on this model's shape. Without it the same weights pass."""
    (result,) = measured("gte-Qwen2-1.5B-instruct").values()
    assert result["lowest"] < PASSING_COSINE
    assert 0.5 < result["pooled"] < PASSING_COSINE


@pytest.mark.long
@pytest.mark.parametrize("name", [c.name for c in CHECKPOINTS])
def test_the_parts_put_together_by_hand_are_the_stock_model(name: str) -> None:
    depth = min(2, next(c for c in CHECKPOINTS if c.name == name).depth)
    assert measured(name, "--host", "--depth", str(depth))[name]["lowest"] > 0.99999
