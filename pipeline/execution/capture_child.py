"""Capture of library patches in a child of ours: nothing of them is drafted code, which is refused here.

The patterns of the library are shipped code that users run as it is, and the stage runs it too where it binds documents
to patches; what a drafter chose are JSON parameters. So they need no sandbox, whose fresh interpreter costs as much as
the capture.
"""

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
from pipeline.work.forked import Standby
from pipeline.work.process import ChildResult, run_child

TIMEOUT_S, MEMORY_MB = 240.0, 6_144


def capture_in_child(
    config: Mapping[str, Any],
    patches: Sequence[Mapping[str, Any]],
    cases: Sequence[Case],
    standby: Standby | None = None,
) -> list[dict[str, Any]]:
    """The documents of library patches, captured in a fresh child or in one that stands by for this.

    Raises CandidateRefused for patches of code or with the child's reason.
    """
    if any(p["pattern"] == CODE for p in patches):
        raise CandidateRefused("drafted code is captured in the sandbox only")
    with tempfile.TemporaryDirectory(prefix="spyre-capture-") as folder:
        task = {"do": "capture", "config": config, "patches": patches, "cases": [c.to_dict() for c in cases]}
        (Path(folder) / "task.json").write_text(json.dumps(task))
        ended = standby.run(folder, TIMEOUT_S) if standby is not None else _run_fresh(folder)
        answer = Path(folder) / "answer.json"
        if not answer.exists():
            raise EnvironmentProblem(f"the capture child left no answer: {ended.reason} {ended.stderr[-1500:]}")
        found = json.loads(answer.read_text())
    if "refused" in found:
        raise CandidateRefused(found["refused"])
    documents: list[dict[str, Any]] = found["documents"]
    return documents


def _run_fresh(folder: str) -> ChildResult:
    argv = [sys.executable, "-m", "agents.capture.inside", folder]
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return run_child(argv, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, env=env, network=False)


class CaptureRun:
    """The capture child as one that stands by; its task is the folder."""

    def prepare(self) -> None:
        """Imports what every capture needs."""
        import agents.capture.model  # noqa: F401 - imported now, while another process works

    def work(self, task: str) -> None:
        """Answers the folder's `task.json`."""
        from agents.capture import inside

        inside.WORK = Path(task)
        inside.main()
