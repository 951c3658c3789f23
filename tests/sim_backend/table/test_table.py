"""The op table of facts 3.2, cell by cell: what each row does on the device, against a transcription of the page.

One test per row and profile, both forms. A process per profile runs all calls (run.py); each cell's outcome is recorded
as the property "cell": row|profile|form|expected|found|ok.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.fact("3.2")
HERE = Path(__file__).parent
TABLE = yaml.safe_load((HERE / "cells.yaml").read_text(encoding="utf-8"))
ROWS = [row["row"] for row in TABLE["rows"]]
Records = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """The records of a profile; its process runs once for all workers of this test run."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    folder = tmp_path_factory.getbasetemp().parent if worker else tmp_path_factory.mktemp("table")

    @cache
    def read(profile: str) -> list[dict[str, Any]]:
        file = folder / f"{profile}.jsonl"
        with (folder / f"{profile}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                file.write_text(_run(profile, folder / f"{profile}-inductor"), encoding="utf-8")
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("{")]

    return read


def _run(profile: str, cache_folder: Path) -> str:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache_folder)}
    command = [sys.executable, str(HERE / "run.py"), profile]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _check(row: str, profile: str, records: Records, record_property: Callable[[str, object], None]) -> None:
    ours = [r for r in records(profile) if r["row"] == row]
    assert {r["form"] for r in ours} == {"eager", "compiled"}
    for form in ("eager", "compiled"):
        known = [r for r in ours if r["form"] == form and not r["unknown"]]
        held = all(r["ok"] for r in known)
        expected, got = (" ".join(dict.fromkeys(r[key] for r in known)) for key in ("expected", "got"))
        if known:
            record_property("cell", f"{row}|{profile}|{form}|{expected}|{got}|{held}")
    wrong = [f"{r['call']} {r['form']}: {r['got']}, not {r['expected']}. {r['detail']}" for r in ours]
    assert [w for w, r in zip(wrong, ours, strict=True) if not (r["ok"] or r["unknown"] or r["owed"])] == []


@pytest.mark.parametrize("profile", [p for p in TABLE["columns"] if p != "profile-2025-11"])
@pytest.mark.parametrize("row", ROWS)
def test_a_row_does_what_the_page_says(
    row: str, profile: str, records: Records, record_property: Callable[[str, object], None]
) -> None:
    _check(row, profile, records, record_property)


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_a_row_did_what_the_page_says_in_2025(
    row: str, records: Records, record_property: Callable[[str, object], None]
) -> None:
    _check(row, "profile-2025-11", records, record_property)


def test_the_transcription_has_every_row_of_the_page_once() -> None:
    assert len(ROWS) == len(set(ROWS)) == 88
    assert all(len(row["cells"]) == len(TABLE["columns"]) for row in TABLE["rows"])
