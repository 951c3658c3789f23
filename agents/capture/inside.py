"""Runs inside the sandbox: captures the patched model, or runs it on given inputs. Not imported outside.

`python inside.py [FOLDER]` reads `task.json` from the folder (the sandbox's work folder). `{"do": "capture", config,
patches, cases}` is answered in `answer.json` by {"documents": [...]}; `{"do": "run", config, patches, dtype, seed}`
with `inputs.safetensors` ("N.name") by {"ran": N} and `outputs.safetensors` ("N"). {"refused": why} answers either.
Drafted code runs in this very process and may write any answer it likes: whoever reads it judges it.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

WORK = Path(sys.argv[1] if len(sys.argv) > 1 else "/work")


def main() -> None:
    """Do the task and answer. A refusal is an answer too."""
    task = json.loads((WORK / "task.json").read_text())
    try:
        answer = {"capture": captured, "run": ran}[task["do"]](task)
    except BaseException as error:  # noqa: BLE001 - drafted code may raise anything, SystemExit included
        answer = {"refused": explain(error)}
    (WORK / "answer.json").write_text(json.dumps(answer))


def captured(task: dict[str, Any]) -> dict[str, Any]:
    """The documents of all cases."""
    from agents.capture.case import case_from_dict
    from agents.capture.model import capture_patched

    return {"documents": capture_patched(task["config"], task["patches"], [case_from_dict(c) for c in task["cases"]])}


def ran(task: dict[str, Any]) -> dict[str, Any]:
    """The outputs of the patched model on the CPU, with weights drawn from the seed."""
    from safetensors.torch import load_file, save_file

    from agents.capture.run import run_patched

    inputs = load_file(WORK / "inputs.safetensors")
    outputs = run_patched(task["config"], task["patches"], task["dtype"], task["seed"], inputs)
    save_file(outputs, WORK / "outputs.safetensors")
    return {"ran": len(outputs)}


def explain(error: BaseException) -> str:
    """Type and message, and the line of the drafted file that raised it."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "drafted.py"]
    place = f" (drafted.py, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {str(error)[:1500]}{place}"


if __name__ == "__main__":
    main()
    sys.stdout.flush()
