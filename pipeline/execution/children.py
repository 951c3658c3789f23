"""Starting the device child of a stage: a SPEC file in, an OUT file back, its life bound to this process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pipeline.errors import EnvironmentProblem
from pipeline.work.process import run_child

TIMEOUT_S = 540.0
MEMORY_MB = 10_240
"""Below the memory of the stage that starts it: a child cannot be given more than its parent has."""


def call_device_child(module: str, spec: dict[str, Any], workdir: Path) -> dict[str, Any]:
    """Run `python -m module SPEC OUT` and return OUT. Raises EnvironmentProblem if the child leaves no answer."""
    name = module.rsplit(".", 1)[-1]
    spec_path, out_path = workdir / f"{name}.spec.json", workdir / f"{name}.out.json"
    spec_path.write_text(json.dumps(spec))
    out_path.unlink(missing_ok=True)
    argv = [sys.executable, "-m", module, str(spec_path), str(out_path)]
    ended = run_child(argv, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, env=os.environ, network=False)
    if not out_path.exists():
        raise EnvironmentProblem(f"the device child {name} left no answer: {ended.reason} {ended.stderr[-1500:]}")
    answer: dict[str, Any] = json.loads(out_path.read_text())
    return answer
