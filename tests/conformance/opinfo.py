"""What an OpInfo run gave and what is expected of it, by operation: the outcomes of its first and second sample."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
SAMPLES = 2


def run_share(profile: str, form: str, share: int, shares: int, samples: int, cache: Path) -> dict[str, list[Any]]:
    """Operation -> [(outcome, detail), ...] of one share of the database, run in a process of its own.

    An operation that ends the process has the outcome "crash".
    """
    command = [sys.executable, str(FOLDER / "opinfo_child.py"), form, *map(str, (share, shares, samples))]
    environment = {
        **os.environ,
        "SPYRE_SIM_PROFILE": profile,
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {line["op"]: line["outcomes"] for line in lines if "op" in line}
    started = [line["started"] for line in lines if "started" in line]
    if done.returncode and started and started[-1] not in found:
        found[started[-1]] = [("crash", f"exit status {done.returncode}: {done.stderr[-300:]}")]
    elif done.returncode:
        raise RuntimeError(f"the OpInfo child failed: {done.stderr[-2000:]}")
    return found


def recorded() -> list[tuple[str, str]]:
    """(profile, form) of every run that has expectations."""
    files = sorted((FOLDER / "expectations").glob("*.yaml"))
    return [(path.stem, form) for path in files for form in yaml.safe_load(path.read_text(encoding="utf-8"))]


def expectations(profile: str, form: str) -> dict[str, str]:
    """Operation -> "works", or "works / raises" where the second sample's outcome is another one."""
    data = yaml.safe_load((FOLDER / "expectations" / f"{profile}.yaml").read_text(encoding="utf-8"))
    return {op: outcome for outcome, ops in data[form].items() for op in ops}


def _first(expected: str, samples: int) -> str:
    """ "works" of "works / raises" for one sample."""
    outcomes = expected.split(" / ")[:samples]
    return " / ".join(outcomes if len(set(outcomes)) > 1 else outcomes[:1])


def summary(found: list[Any]) -> str:
    """The outcomes of an operation's samples, once if all are equal."""
    names = [outcome for outcome, _ in found]
    return " / ".join(names if len(set(names)) > 1 else names[:1]) or "no sample"


def unexpected(found: dict[str, list[Any]], expected: dict[str, str], samples: int) -> list[str]:
    """A line for each operation whose outcomes are not the expected ones."""
    lines = []
    for op, outcomes in found.items():
        wanted = _first(expected.get(op, "not listed"), samples)
        if (got := summary(outcomes)) != wanted:
            details = "; ".join(detail for _, detail in outcomes if detail)
            lines.append(f"{op}: expected {wanted}, got {got} ({details})")
    return lines
