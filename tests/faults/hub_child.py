"""A stage's child that really asks the Hub: the inspection is the factory's own, all other stages the fake child's.

Only the description of the stock model is left out, which asks the Hub for nothing and costs seconds. The clock of a
Hub that does not answer runs faster, so that a test sees its end.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

FAKE = runpy.run_path(str(Path(__file__).parents[1] / "pipeline" / "work" / "fake_child.py"))
PATIENCE_S = 1.0


def inspect(spec: dict[str, Any]) -> dict[str, Any]:
    """OUT of the real stage."""
    from pipeline.catalogue import hub
    from pipeline.execution import inspect as stage
    from pipeline.execution.child import run_stage

    hub.SMALL_FILE_TIMEOUT_S = PATIENCE_S
    stage.describe_folder = lambda _folder: {}
    return run_stage("inspect", spec)


if __name__ == "__main__":
    FAKE["STAGES"]["inspect"] = inspect
    FAKE["answer"](sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
