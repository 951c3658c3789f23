"""A fault of the simulator is ours: the stage child stores it as `infra`, never as a failure of the model."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.errors import EnvironmentProblem
from pipeline.execution import child
from pipeline.execution.device import SimulatedSpyre
from sim_backend.errors import CompilerFault


def test_a_fault_of_the_simulators_compiler_ends_a_stage_as_infra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise CompilerFault("KeyError: 'buf7'")

    monkeypatch.setattr("sim_backend.capabilities.capability", fail)
    device = SimulatedSpyre("profile-2026-08")
    with pytest.raises(EnvironmentProblem, match="buf7"):
        device.capability(None, {}, dtype=None, blocks=None)
    monkeypatch.setitem(child.STAGES, "capture", lambda spec: device.capability(None, {}, dtype=None, blocks=None))
    assert child.run_stage("capture", {})["outcome"] == "infra"
