"""Children of the anchor tests: modules of this folder run as a script, in a process that has one profile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def run(module: str, *arguments: str, profile: str | None = None, stdin: str = "", timeout_s: float = 1500) -> str:
    """What `python -m module arguments` prints; its stderr is in the error if it fails."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]),
    }
    environment.pop("SPYRE_SIM_PROFILE", None)
    if profile is not None:
        environment["SPYRE_SIM_PROFILE"] = profile
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *arguments],
        input=stdin, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-4000:]
    return child.stdout
