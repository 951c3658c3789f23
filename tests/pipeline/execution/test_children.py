"""Who is to blame for a device child without an answer: we, until it runs what is judged; then that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import CheckpointProblem, EnvironmentProblem
from pipeline.execution import children
from pipeline.execution.child import run_stage
from pipeline.execution.children import call_device_child

CHILD = """
import json, os, pathlib, sys, time
spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
if spec["how"] == "answers":
    pathlib.Path(sys.argv[2]).write_text(json.dumps({"error": None}))
    sys.exit()
if spec["begins"]:
    pathlib.Path(spec["begun"]).touch()
if spec["how"] == "hangs":
    time.sleep(60)
if spec["how"] == "eats":
    held = [bytearray(50_000_000) for _ in range(40) if not time.sleep(0.05)]
    time.sleep(60)
os.kill(os.getpid(), 9) if spec["how"] == "dies" else sys.exit(3)
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "odd_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(children, "TIMEOUT_S", 3.0)
    monkeypatch.setattr(children, "MEMORY_MB", 400)
    return lambda how, begins: call_device_child("odd_child", {"how": how, "begins": begins}, tmp_path)


@pytest.mark.parametrize(("how", "kind"), [("dies", "crashed"), ("exits", "crashed"), ("hangs", "timeout"), ("eats", "memory_limit")])  # fmt: skip # noqa: E501
def test_death_hang_and_memory_while_a_candidate_runs_are_its_own(call: Any, how: str, kind: str) -> None:
    with pytest.raises(CheckpointProblem) as problem:
        call(how, begins=True)
    assert problem.value.kind == kind


def test_before_it_runs_the_fault_is_ours(call: Any) -> None:
    with pytest.raises(EnvironmentProblem, match="left no answer"):
        call("dies", begins=False)


def test_an_old_beginning_is_not_taken_for_this_one(call: Any, tmp_path: Path) -> None:
    (tmp_path / "odd_child.begun").touch()
    with pytest.raises(EnvironmentProblem):
        call("dies", begins=False)
    assert call("answers", begins=False) == {"error": None}


def test_the_stage_calls_it_failed_and_never_infra(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(spec: dict[str, Any]) -> dict[str, Any]:
        raise CheckpointProblem("timeout", "the device child did not end")

    monkeypatch.setitem(__import__("pipeline.execution.child", fromlist=["STAGES"]).STAGES, "verify", dies)
    out = json.loads(json.dumps(run_stage("verify", {})))
    assert (out["outcome"], out["failures"][0]["kind"]) == ("failed", "timeout")
