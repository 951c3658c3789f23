"""No path leads from drafted code to the evidence of past verdicts, with its hidden seeds."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import agents
from agents.drafters.targets import NoSource, read_class_source
from agents.sandbox import run_in_sandbox
from pipeline.database.artefacts import artefact_path, store_bytes
from pipeline.database.unit_of_work import unit_of_work

SEED = b"4611686018427387847"
LOOK = """
import json, os, pathlib
named = json.loads(pathlib.Path("paths.json").read_text())
seen = [path for path in named if os.path.exists(path)]
for root, folders, files in os.walk("/", onerror=None):
    if root.startswith(("/proc", "/sys")):
        folders[:] = []
        continue
    for name in files:
        path = os.path.join(root, name)
        if name.endswith((".sqlite3", ".sqlite3-wal")) or "artefacts" in path:
            seen.append(path)
print(json.dumps(seen))
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_code_in_the_sandbox_sees_neither_database_nor_artefacts(database: str) -> None:
    with unit_of_work() as session:
        digest = store_bytes(session, b"seeds: " + SEED, "evidence")
    stored = artefact_path(digest)
    paths = [stored, stored.parent, stored.parents[2], Path(database.removeprefix("sqlite:///"))]
    assert all(path.exists() for path in paths)
    files = {"paths.json": json.dumps([str(path) for path in paths]).encode()}
    result = run_in_sandbox(LOOK, files_in=files)
    assert result.exit == 0, result.stderr
    assert json.loads(result.stdout) == []


@pytest.mark.parametrize(
    "name", ["pipeline.verification.seeds.HiddenSeeds", "transformers.../../data.X", "builtins.open"]
)
def test_a_coding_agent_reads_sources_of_transformers_only(name: str) -> None:
    with pytest.raises(NoSource):
        read_class_source(name)


def test_drafters_import_nothing_that_could_reach_evidence() -> None:
    """Nothing in `agents` imports the pipeline, the database or the gate, not even inside a function."""
    found = [
        f"{path}:{node.lineno}"
        for path in Path(agents.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if name.split(".")[0] in {"pipeline", "api", "sqlalchemy"}
    ]
    assert found == []
