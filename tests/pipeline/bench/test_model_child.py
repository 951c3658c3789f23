"""The judging process answers many questions, starts at the first, and says so when it has ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline.bench import model_child
from pipeline.bench.model_child import ModelChild
from pipeline.bench.structural import MODEL_TASKS

ECHO = "import sys\nfor line in sys.stdin:\n    print(line.strip(), flush=True)\n"


def fake(monkeypatch: pytest.MonkeyPatch, code: str) -> list[int]:
    """A child that runs `code`; the list grows with each start."""
    started: list[int] = []

    def start() -> subprocess.Popen[str]:
        started.append(1)
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)

    monkeypatch.setattr(model_child, "_start", start)
    return started


def test_one_process_answers_all_questions_and_none_is_started_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    started = fake(monkeypatch, ECHO)
    with ModelChild() as child:
        assert started == []
        task = MODEL_TASKS[0]
        asked = child.judge(task.id, task.reference, 7)
        assert (asked["judge"], asked["seed"], len(asked["candidate"]["patches"])) == (task.id, 7, 1)
        assert child.misses(task.id, 8) == {"misses": task.id, "seed": 8}
    assert started == [1]


def test_a_child_that_has_ended_is_an_error_and_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "raise SystemExit(3)")
    with ModelChild() as child, pytest.raises(RuntimeError, match="ended with 3"):
        child.misses(MODEL_TASKS[0].id, 1)
