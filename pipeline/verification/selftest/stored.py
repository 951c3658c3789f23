"""The last report of the self-test in the data directory, for whoever publishes the verifier's error rates."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FOLDER = "gate-selftest"
LAST = "last.json"


def state_folder(data_dir: Path) -> Path:
    """Where finished batches of a full run and the last report are kept."""
    return data_dir / FOLDER


def store_report(data_dir: Path, report: dict[str, Any]) -> Path:
    """Keep a report as the last one."""
    folder = state_folder(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{LAST}.{os.getpid()}"
    partial.write_text(json.dumps(report, indent=1))
    return partial.rename(folder / LAST)


def last_report(data_dir: Path) -> dict[str, Any] | None:
    """The last report: `date`, `full`, `rates` ({class, wrong, false_accepts, false_accept_rate, ...}), counts.

    None if the self-test was never run here, or its file cannot be read.
    """
    try:
        found = json.loads((state_folder(data_dir) / LAST).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "rates" in found else None
