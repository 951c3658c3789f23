"""Works for the diagnosis benchmark, each task in a process of its own, forked from one with everything imported.

`python -m benchmarks.diagnosis_server`: lines of JSON on standard input, {"task": …, "case": CASE.json, "out": OUT},
one line of JSON on standard output for each: `said` ("done" or the reason), `cpu` (seconds of the processor). A fault
changes the profile of its process, so that no case can be run in another's; what they have in common (imports, the
families' models on the CPU) is made once here. No device is started in this process, so that what it forks is as fresh
as a new one.

Tasks: "case" (diagnose), "error" (how far the whole model is off), "script" (run the reproducer `script` with the
case's faults; OUT is what it wrote to standard error), "triggers" (which faults a model meets; `case` is its name).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

TIMEOUT_S = 900
IMPORTED = (
    "adapters",
    "torch.export",
    "torch._inductor.compile_fx",
    "torch._inductor.graph",
    "torch._inductor.scheduler",
    "benchmarks.diagnosis_child",
    "pipeline.execution.diagnose_run",
    "sim_backend.capabilities",
    "sim_backend.compiler.lowerings",
    "sim_backend.compiler.registration",
    "sim_backend.compiler.scheduling",
    "sim_backend.device",
)
"""What every case needs, compilers included."""


@cache
def model_of(family: str) -> Any:
    """The family's model, made once; a forked case may change its copy."""
    from benchmarks.diagnosis_families import build

    return build(family)


def serve() -> None:
    """Answer lines until there are none."""
    for name in IMPORTED:
        import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["task"] in ("case", "error"):
            model_of(json.loads(Path(asked["case"]).read_text())["family"])
        gc.freeze()
        print(json.dumps(in_fork(asked)), flush=True)


def in_fork(asked: dict[str, str]) -> dict[str, Any]:
    """Do one task in a forked process: `said` is "done" or why there is no answer, `code` its exit status."""
    process = os.fork()
    if process == 0:
        _child(asked)
    _, status, usage = os.wait4(process, 0)
    code = os.waitstatus_to_exitcode(status)
    said = f"ended with {code}: {_last_line(Path(asked['out'] + '.error'))}"
    if code == -signal.SIGALRM:
        said = f"no answer within {TIMEOUT_S} s"
    if code == 0 or (asked["task"] == "script" and code == 1):
        said = "done"
    return {"said": said, "code": code, "cpu": round(usage.ru_utime + usage.ru_stime, 2)}


def _child(asked: dict[str, str]) -> None:
    """In the forked process: write the answer, or the error beside it; never returns."""
    signal.alarm(TIMEOUT_S)
    code = 2
    try:
        code = TASKS[asked["task"]](asked)
    except BaseException:  # noqa: BLE001 - the boundary of the forked process
        Path(asked["out"] + ".error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _case(asked: dict[str, str]) -> int:
    from benchmarks.diagnosis_child import run_case

    case = json.loads(Path(asked["case"]).read_text())
    Path(asked["out"]).write_text(json.dumps(run_case(case, model_of(case["family"]))))
    return 0


def _error(asked: dict[str, str]) -> int:
    from benchmarks.diagnosis_child import error_of

    case = json.loads(Path(asked["case"]).read_text())
    Path(asked["out"]).write_text(json.dumps(error_of(case, model_of(case["family"]))))
    return 0


def _script(asked: dict[str, str]) -> int:
    """Run a script as its user would, but with the faults in place; its exit status."""
    from benchmarks.diagnosis_faults import fault_from, install
    from pipeline.execution.scripts import NOT_A_USERS, run_script

    for name in NOT_A_USERS:
        os.environ.pop(name, None)
    install([fault_from(f) for f in json.loads(Path(asked["case"]).read_text())["faults"]])
    return run_script(Path(asked["script"]), Path(asked["out"]))


def _triggers(asked: dict[str, str]) -> int:
    from benchmarks.diagnosis_triggers import triggered

    Path(asked["out"]).write_text(json.dumps(triggered(asked["case"])))
    return 0


TASKS: dict[str, Callable[[dict[str, str]], int]] = {
    "case": _case,
    "error": _error,
    "script": _script,
    "triggers": _triggers,
}


def _last_line(path: Path) -> str:
    return path.read_text().strip().splitlines()[-1][:300] if path.exists() else "no message"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _child(json.loads(sys.argv[1]))  # one task in this interpreter; ends it
    serve()
