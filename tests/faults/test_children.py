"""What a child does to itself costs one run: a segmentation fault, a hang that holds the lock, memory for ever."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks.installation import Installation
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.sweeps.service import close_finished
from pipeline.work import worker
from pipeline.work.invariants import broken, violations
from pipeline.work.models import StageName
from pipeline.work.stages import STAGES
from pipeline.work.worker import work_on

from .work import Work

pytestmark = pytest.mark.timeout(120)
TIGHT = {StageName.CAPTURE: replace(STAGES[StageName.CAPTURE], timeout_s=4, memory_mb=400)}


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("crash", "crashed", "SIGSEGV"),
        ("holds-the-gil", "timeout", "within 4 s"),
        ("hungry", "memory_limit", "limit is 400 MB"),
    ],
)
def test_a_child_that_ruins_itself_costs_one_row(
    how: str, kind: str, words: str, embedded: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "STAGES", {**STAGES, **TIGHT})
    work = Work(f"a/{how}-one", "a/stock-two")
    while any(run.state != "done" for run in work.runs()):
        for run in work.runs():
            work_on(run.id)
    with unit_of_work() as session:
        close_finished(session)
    (struck,) = [run for run in work.runs() if run.outcome == "failed"]
    assert (struck.stage, struck.kind) == ("capture", kind)
    assert words in struck.reason
    assert work.outcomes() == {f"a/{how}-one": "failed", "a/stock-two": "passed"}
    with reading() as session:
        assert broken(violations(session, at_rest=True)) == []
    assert embedded.settings.data_dir.exists()


FILL_THEN_WORK = """
import errno, sys
from pathlib import Path
from pipeline.work.worker import work_on
try:
    (Path(sys.argv[1]) / "filler").write_bytes(b"x" * 10_000_000)
except OSError as error:
    assert error.errno == errno.ENOSPC
assert work_on(int(sys.argv[2]))
"""


@pytest.mark.sandbox
def test_a_disk_that_is_really_full_is_our_fault_and_tried_again(embedded: Installation) -> None:
    work = Work("a/stock-one")
    assert work_on(1)
    assert work_on(2)
    store = embedded.settings.data_dir / "artefacts"
    small = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--size", "65536", "--tmpfs", str(store)]
    done = subprocess.run(
        [*small, sys.executable, "-c", FILL_THEN_WORK, str(store), "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (execute,) = [run for run in work.runs() if run.stage == "execute"]
    assert (execute.state, execute.outcome) == ("queued", None)
    assert "No space left" in execute.reason
    with reading() as session:
        assert broken(violations(session)) == []
