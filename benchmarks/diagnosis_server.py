"""Runs cases of the diagnosis benchmark, each in a process of its own that is forked from one with everything imported.

`python -m benchmarks.diagnosis_server`: lines CASE.json OUT.json on standard input, one line "done" or the reason on
standard output for each. A fault changes the profile of its process, so that no case can be run in another's; what they
have in common (imports, the families' models on the CPU) is made once here. No device is started in this process.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

TIMEOUT_S = 600


IMPORTED = (
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
        case, out = line.split()
        model_of(json.loads(Path(case).read_text())["family"])
        gc.freeze()
        print(in_fork(Path(case), Path(out)), flush=True)


def in_fork(case: Path, out: Path) -> str:
    """Run one case in a forked process: "done", or why there is no answer."""
    process = os.fork()
    if process == 0:
        _child(case, out)
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        return f"no answer within {TIMEOUT_S} s"
    return "done" if code == 0 else f"ended with {code}: {_last_line(out.with_suffix('.error'))}"


def _child(case: Path, out: Path) -> None:
    """In the forked process: write the answer, or the error beside it; never returns."""
    from benchmarks.diagnosis_child import run_case

    signal.alarm(TIMEOUT_S)
    code = 1
    try:
        asked = json.loads(case.read_text())
        out.write_text(json.dumps(run_case(asked, str(case), model_of(asked["family"]))))
        code = 0
    except BaseException:  # noqa: BLE001 - the boundary of the forked process
        out.with_suffix(".error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _last_line(path: Path) -> str:
    return path.read_text().strip().splitlines()[-1][:300] if path.exists() else "no message"


if __name__ == "__main__":
    serve()
