"""Capture of library patches in a child of ours, for machines without a sandbox. Drafted code is refused here."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.capture.apply import CODE
from agents.capture.case import Case
from agents.errors import CandidateRefused
from pipeline.errors import EnvironmentProblem
from pipeline.work.process import run_child

TIMEOUT_S, MEMORY_MB = 240.0, 6_144


def capture_in_child(
    config: Mapping[str, Any], patches: Sequence[Mapping[str, Any]], cases: Sequence[Case]
) -> list[dict[str, Any]]:
    """The documents of library patches. Raises CandidateRefused for patches of code or with the child's reason."""
    if any(p["pattern"] == CODE for p in patches):
        raise CandidateRefused("drafted code is captured in the sandbox only")
    with tempfile.TemporaryDirectory(prefix="spyre-capture-") as folder:
        task = {"do": "capture", "config": config, "patches": patches, "cases": [c.to_dict() for c in cases]}
        (Path(folder) / "task.json").write_text(json.dumps(task))
        argv = [sys.executable, "-m", "agents.capture.inside", folder]
        env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        ended = run_child(argv, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, env=env, network=False)
        answer = Path(folder) / "answer.json"
        if not answer.exists():
            raise EnvironmentProblem(f"the capture child left no answer: {ended.reason} {ended.stderr[-1500:]}")
        found = json.loads(answer.read_text())
    if "refused" in found:
        raise CandidateRefused(found["refused"])
    documents: list[dict[str, Any]] = found["documents"]
    return documents
