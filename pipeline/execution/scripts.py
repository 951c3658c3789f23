"""Running reproducers as their users would, without starting an interpreter for each.

A child is forked before this process starts threads; it imports what every script needs, chooses no profile and starts
no device, and forks once more for each script. What runs a script is therefore as fresh as a new interpreter.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from pipeline.diagnosis.reproducer.check import TIMEOUT_S

AT_ONCE = 2
"""Scripts that run beside each other: each is a process of its own."""
IMPORTED = (
    "torch",
    "torch._inductor.compile_fx",
    "torch._inductor.scheduler",
    "sim_backend",
    "sim_backend.compiler.lowerings",
    "sim_backend.compiler.scheduling",
)
"""What every script needs; on a card the last ones are not used."""
NOT_A_USERS = frozenset({"SPYRE_SIM_PROFILE", "TORCH_DEVICE_BACKEND_AUTOLOAD"})
"""Settings of our own children: whoever runs a reproducer by hand has neither."""


class ScriptRuns:
    """The work of a child that stands by: the task is a JSON list of scripts, each leaves NAME.said and NAME.code."""

    def prepare(self) -> None:
        """Import what the scripts will, and name the device as their first import of the simulator would: this process
        may have imported it where it must not."""
        for name in NOT_A_USERS:
            os.environ.pop(name, None)
        for name in IMPORTED:
            import_module(name)
        import_module("sim_backend.autoload").register()

    def work(self, task: str) -> None:
        """Run every script, AT_ONCE beside each other."""
        running: dict[int, Path] = {}
        for script in map(Path, json.loads(task)):
            if len(running) == AT_ONCE:
                _ended(running)
            running[forked(script)] = script
        while running:
            _ended(running)


def _ended(running: dict[int, Path]) -> None:
    """Wait for the process that was forked first."""
    number = next(iter(running))
    _, status = os.waitpid(number, 0)
    code_file(running.pop(number)).write_text(str(os.waitstatus_to_exitcode(status)))


def said_file(script: Path) -> Path:
    """What a script wrote to standard error."""
    return script.with_suffix(".said")


def code_file(script: Path) -> Path:
    """A script's exit status; missing if it never ended."""
    return script.with_suffix(".code")


def forked(script: Path) -> int:
    """The number of a process that runs the script; it dies of SIGALRM after TIMEOUT_S."""
    process = os.fork()
    if process == 0:
        signal.alarm(int(TIMEOUT_S))
        code = 1
        try:
            code = run_script(script, said_file(script))
        finally:
            os._exit(code)
    return process


def run_script(script: Path, said: Path) -> int:
    """Run a script in this process as the interpreter would; its exit status. What it writes to stderr is in `said`."""
    with said.open("w") as out:
        os.dup2(out.fileno(), 2)
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as ended:
            return _status(ended, out.fileno())
        except BaseException:  # noqa: BLE001 - as the interpreter would
            os.write(out.fileno(), traceback.format_exc().encode())
            return 1
    return 0


def _status(ended: SystemExit, out: int) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    os.write(out, f"{ended.code}\n".encode())
    return 1


def task_of(scripts: Sequence[Path]) -> str:
    """The line that a standby child is given."""
    return json.dumps([str(s) for s in scripts])
