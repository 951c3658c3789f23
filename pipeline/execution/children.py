"""Starting the device child of a stage: a SPEC file in, an OUT file back, its life bound to this process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pipeline.errors import CheckpointProblem, EnvironmentProblem
from pipeline.work.forked import Standby
from pipeline.work.process import ChildResult, run_child

TIMEOUT_S = 540.0
MEMORY_MB = 10_240
"""Below the memory of the stage that starts it: a child cannot be given more than its parent has."""


def call_device_child(
    module: str, spec: dict[str, Any], workdir: Path, standby: Standby | None = None
) -> dict[str, Any]:
    """Run `python -m module SPEC OUT`, or give SPEC and OUT to a child that stands by for them, and return OUT.

    A child that leaves no answer is our fault, EnvironmentProblem, until it has left the file `begun` of its SPEC: from
    then on it runs what is judged, and its death, hang or memory overrun is a CheckpointProblem of that kind.
    """
    name = module.rsplit(".", 1)[-1]
    spec_path, out_path = workdir / f"{name}.spec.json", workdir / f"{name}.out.json"
    begun = workdir / f"{name}.begun"
    spec_path.write_text(json.dumps({**spec, "begun": str(begun)}))
    for left in (out_path, begun):
        left.unlink(missing_ok=True)
    if standby is not None:
        ended = standby.run(json.dumps([str(spec_path), str(out_path)]), TIMEOUT_S)
    else:
        argv = [sys.executable, "-m", module, str(spec_path), str(out_path)]
        ended = run_child(argv, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, env=os.environ, network=False)
    if not out_path.exists():
        raise no_answer(name, ended, begun.exists())
    answer: dict[str, Any] = json.loads(out_path.read_text())
    return answer


def no_answer(name: str, ended: ChildResult, begun: bool) -> CheckpointProblem | EnvironmentProblem:
    """The fault of a child without an answer: of what it ran once that had begun, else ours."""
    said = f"the device child {name} left no answer: {ended.reason} {ended.stderr[-1500:]}"
    return CheckpointProblem(ended.problem or "crashed", said) if begun else EnvironmentProblem(said)
