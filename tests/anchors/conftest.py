"""One run of the stimuli serves all tests, and all workers, of a test run."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from anchors.children import run


@pytest.fixture(scope="session")
def observations(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """{profile: {stimulus: observation}} of the tests selected for this run."""
    work: dict[str, list[str]] = {}
    for item in request.session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if {"profile", "name"} <= parameters.keys() and Path(__file__).parent in item.path.parents:
            work.setdefault(parameters["profile"], []).append(parameters["name"])
    work = {profile: sorted(set(names)) for profile, names in sorted(work.items())}
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    store = shared / "anchors.json"
    with (shared / "anchors.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not store.exists():
            store.write_text(run("anchors.observe", str(shared / "anchors-inductor"), stdin=json.dumps(work)))
        kept: dict[str, Any] = json.loads(store.read_text())
    return kept
