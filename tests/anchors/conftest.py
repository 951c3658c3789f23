"""One run of the stimuli serves all tests, and all workers, of a test run."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]


def _observe(work: dict[str, list[str]], cache: Path) -> dict[str, Any]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]),
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
    }
    environment.pop("SPYRE_SIM_PROFILE", None)
    child = subprocess.run(
        [sys.executable, "-m", "anchors.observe"],
        input=json.dumps(work),
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-4000:]
    observations: dict[str, Any] = json.loads(child.stdout)
    return observations


@pytest.fixture(scope="session")
def observations(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """{profile: {stimulus: observation}} of the tests selected for this run."""
    work: dict[str, list[str]] = {}
    for item in request.session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if {"profile", "name"} <= parameters.keys() and Path(__file__).parent in item.path.parents:
            work.setdefault(parameters["profile"], []).append(parameters["name"])
    work = {profile: sorted(names) for profile, names in sorted(work.items())}
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    store = shared / "anchors.json"
    with (shared / "anchors.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not store.exists():
            store.write_text(json.dumps(_observe(work, shared / "anchors-inductor")))
        kept: dict[str, Any] = json.loads(store.read_text())
    return kept
