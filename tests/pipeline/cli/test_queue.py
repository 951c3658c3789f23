"""`queue pause | resume | cancel`: one JSON document each, one sentence for what cannot be done."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli import queue


@pytest.fixture
def run() -> Callable[..., str]:
    app = typer.Typer()
    queue.register(app)

    def invoke(*arguments: str, status: int = 0) -> str:
        result = CliRunner().invoke(app, ["queue", *arguments])
        assert result.exit_code == status, result.output
        return result.stdout if status == 0 else result.stderr

    return invoke


def test_pause_resume_and_cancel(run: Callable[..., str], database: str, sweep_of: Callable[..., int]) -> None:
    number = sweep_of("a/one", "a/two")
    assert json.loads(run("pause", "--reason", "backup", "--json"))["paused"] is True
    assert json.loads(run("resume", "--json")) == {
        "paused": False,
        "runs": {"queued": 2, "claimed": 0, "done": 0, "cancelled": 0},
    }
    assert json.loads(run("cancel", str(number), "--json"))["cancelled"] == [1, 2]
    assert "0 runs cancelled" in run("cancel", "--all")


def test_what_cannot_be_cancelled_is_one_sentence(run: Callable[..., str], database: str) -> None:
    assert "no sweep 9" in run("cancel", "9", status=1)
    assert "no request 'x'" in run("cancel", "x", status=1)
    assert "--all" in run("cancel", status=1)
