"""What the device refuses is a failure of its kind; what our machine breaks is never held against the model."""

from __future__ import annotations

import pytest

from pipeline.errors import EnvironmentProblem
from pipeline.execution.execute import refused


def test_a_refusal_of_the_device_is_a_failure_of_its_kind() -> None:
    out = refused(
        {"type": "RuntimeError", "frame": "/x/kernel.py:9", "message": "contains unimplemented operation pow"}
    )
    assert (out["outcome"], out["failures"][0]["kind"]) == ("failed", "unsupported_op")


def test_a_full_disk_in_the_device_child_is_our_fault() -> None:
    with pytest.raises(EnvironmentProblem, match="No space left"):
        refused({"type": "OSError", "frame": "/x/a.py:1", "message": "[Errno 28] No space left on device"})
