"""Does the sandbox hold on this machine? Tested at every worker start; drafted code runs only where the answer is yes.

`begin_test` starts the self-test in a process of its own (the worker parent must stay light), which leaves its answer
in the data directory; `sandbox_refusal` waits for that answer. Without one, or with a failed check, it says why and
what to do, and stages that would run drafted code refuse (fail closed). The rules drafter needs no sandbox.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pipeline.settings import get_settings

ANSWER_WITHIN_S = 60.0
POLL_S = 0.1
REMEDY = "run `spyre-factory sandbox selftest` on this machine and do what it says"


def state_path(data_dir: Path) -> Path:
    """Where the answer of this machine lies; workers of other machines may share the data directory."""
    return data_dir / f"sandbox-{socket.gethostname()}.json"


def begin_test(data_dir: Path) -> subprocess.Popen[bytes]:
    """Forget the last answer and start the self-test. The process ends with its parent's session."""
    state_path(data_dir).unlink(missing_ok=True)
    return subprocess.Popen([sys.executable, "-m", "pipeline.work.sandbox_state"], stdin=subprocess.DEVNULL)


def write_state(data_dir: Path) -> dict[str, Any]:
    """Run the self-test and store its answer: {"checks", "failed": [{"name", "detail"}], "memory_limit"}."""
    from agents.sandbox.selftest import memory_limit_of, selftest

    checks = selftest([data_dir], with_torch=False)
    failed = [{"name": check.name, "detail": check.detail} for check in checks if not check.passed]
    state = {"checks": len(checks), "failed": failed, "memory_limit": memory_limit_of(checks)}
    path = state_path(data_dir)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(state))
    partial.rename(path)
    return state


def read_state(data_dir: Path, wait_s: float = ANSWER_WITHIN_S) -> dict[str, Any] | None:
    """The answer, waited for; None if there is none in time or it cannot be read."""
    deadline = time.monotonic() + wait_s
    path = state_path(data_dir)
    while not path.exists():
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_S)
    try:
        state = json.loads(path.read_text())
    except ValueError:
        return None
    return state if isinstance(state, dict) and isinstance(state.get("failed"), list) else None


def sandbox_refusal(data_dir: Path, wait_s: float = ANSWER_WITHIN_S) -> str | None:
    """Why no drafted code may run here, with the remedy; None where the self-test passed."""
    state = read_state(data_dir, wait_s)
    if state is None:
        return f"the sandbox's self-test gave no answer. Remedy: {REMEDY}"
    if not state["failed"] and state.get("checks"):
        return None
    first = state["failed"][0] if state["failed"] else {"name": "no check was made", "detail": ""}
    said, _, remedy = first["detail"].partition("Remedy: ")
    return f"the sandbox does not hold here ({first['name']}: {said[:400].strip()}). Remedy: {remedy or REMEDY}"


if __name__ == "__main__":
    write_state(get_settings().data_dir)
