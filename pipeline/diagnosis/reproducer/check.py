"""A reproducer is run in a fresh process before it is stored, and must fail with the signature of the diagnosis."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.diagnosis.reproducer.signature import Signature, printed
from pipeline.work.process import run_child

TIMEOUT_S = 180.0
MEMORY_MB = 8_192


@dataclass(frozen=True)
class Checked:
    """What the fresh process did: `found` is its signature, None if it did not fail as a reproducer does."""

    found: Signature | None
    same: bool
    said: str
    seconds: float


def check_script(
    script: Path, expected: Signature, launcher: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Checked:
    """Run the script by itself and compare. `launcher` is what runs it, by default this Python."""
    argv = [*(launcher or (sys.executable,)), str(script)]
    ended = run_child(
        argv, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, env=dict(environment or os.environ), network=False
    )
    return judged(ended.returncode, ended.stderr or ended.reason, expected, ended.seconds)


def judged(code: int, stderr: str, expected: Signature, seconds: float = 0.0) -> Checked:
    """What the end of a script's process says: exit status 1 and the signature it printed."""
    found = printed(stderr) if code == 1 else None
    same = found is not None and found.same_as(expected)
    return Checked(found, same, (stderr.strip().splitlines() or [f"status {code}"])[-1][:300], seconds)
