"""Runs inside the sandbox: many tasks of `agents.capture.inside`, each in a process of its own. Not imported outside.

Reads `tasks.json` ([{"task": ..., "configs": ...}]) and `N.inputs.safetensors`; leaves `N.answer.json` and
`N.outputs.safetensors`. Only the start is shared, torch and transformers are imported once; a task that dies leaves
the answer that a sandbox of its own would give. Cheats that would take others along get a start of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

WORK = Path("/work")
TASK_S = 120
FILES = ("answer.json", "outputs.safetensors")


def main() -> None:
    """Every task, one after the other."""
    import torch

    from agents.capture import inside

    torch.set_num_threads(1)
    tasks = json.loads((WORK / "tasks.json").read_text())
    warm(tasks)
    for number, task in enumerate(tasks):
        run_task(inside, number, task)


def warm(tasks: list[dict[str, Any]]) -> None:
    """Import what every task needs, once for all of them; a capture of stock imports the exporter."""
    import torch

    from agents.capture import weights
    from agents.capture.case import Case
    from agents.capture.model import capture_stock
    from agents.capture.stock import build_model, config_of

    assert weights.random_stock is not None
    with torch.device("meta"):
        for text in {json.dumps(task["config"], sort_keys=True) for task in tasks}:
            build_model(config_of(json.loads(text)))
    if any(task["do"] == "capture" for task in tasks):
        capture_stock(tasks[0]["config"], [Case(1, 8, "float32")])


def run_task(inside: Any, number: int, task: dict[str, Any]) -> None:
    """One task in a child, in a folder of its own; its files are moved to where they may leave."""
    folder = WORK / f"task{number}"
    folder.mkdir()
    (folder / "task.json").write_text(json.dumps(task))
    given = WORK / f"{number}.inputs.safetensors"
    if given.exists():
        given.rename(folder / "inputs.safetensors")
    child = os.fork()
    if child == 0:
        run_here(inside, folder)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    collect(folder, number, status)


def run_here(inside: Any, folder: Path) -> None:
    """The child: does not return."""
    signal.alarm(TASK_S)
    os.chdir(folder)
    inside.WORK = folder
    try:
        inside.main()
    finally:
        os._exit(0)


def collect(folder: Path, number: int, status: int) -> None:
    """Plain files of the task, or the refusal of one that left no answer."""
    for name in FILES:
        path = folder / name
        if path.is_file() and not path.is_symlink():
            path.rename(WORK / f"{number}.{name}")
    if not (WORK / f"{number}.answer.json").exists():
        told = {"refused": f"the code gave no answer (status {128 - status if status < 0 else status})"}
        (WORK / f"{number}.answer.json").write_text(json.dumps(told))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
