"""Children that judge batches: one serves many, what it says instead is the reason, and one that dies is replaced."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.verification.selftest.children import Judge

SCRIPT = """
import json, os, sys
from pathlib import Path
for line in sys.stdin:
    task, out = map(Path, json.loads(line))
    what = json.loads(task.read_text())["what"]
    if what == "die":
        sys.exit("the disk is full")
    if what == "judge":
        out.write_text(json.dumps([{"pid": os.getpid()}]))
    print("done" if what == "judge" else what, flush=True)
"""


@pytest.fixture
def judge() -> Iterator[Judge]:
    made = Judge((sys.executable, "-c", SCRIPT))
    yield made
    made.close()


def test_one_child_judges_one_batch_after_the_other(judge: Judge, tmp_path: Path) -> None:
    first, second = (judge.judge({"what": "judge"}, tmp_path) for _ in range(2))
    assert isinstance(first, list)
    assert first == second
    assert list(tmp_path.iterdir()) == []


def test_what_a_child_says_instead_is_the_reason(judge: Judge, tmp_path: Path) -> None:
    assert judge.judge({"what": "ValueError: no such thing"}, tmp_path) == "ValueError: no such thing"
    assert isinstance(judge.judge({"what": "judge"}, tmp_path), list)


def test_a_child_that_dies_is_replaced(judge: Judge, tmp_path: Path) -> None:
    before = judge.judge({"what": "judge"}, tmp_path)
    assert judge.judge({"what": "die"}, tmp_path) == "the child ended with status 1: the disk is full"
    after = judge.judge({"what": "judge"}, tmp_path)
    assert isinstance(after, list)
    assert after != before
