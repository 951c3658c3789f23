"""`agents bench`: a run is stored and tabled; without a database it is only told; `llm` that is off is not measured."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli import agents
from pipeline.settings import Settings

Run = Callable[..., str]


@pytest.fixture
def run() -> Run:
    app = typer.Typer()
    agents.register(app)

    def invoke(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["agents", "bench", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    return invoke


def test_a_run_is_stored_and_tabled_by_model(run: Run, database: str) -> None:
    found = json.loads(run("--drafter", "null", "--split", "fresh", "--seed", "3", "--json"))
    assert (found["overall"]["tasks"], found["overall"]["solved_at_k"], found["stored"]) == (36, 0, 1)
    [row] = json.loads(run("--table", "--json"))
    assert (row["model"], row["split"], row["seed"], row["share_at_1"]) == ("null", "fresh", 3, 0.0)
    assert row["tasks_digest"] == found["tasks_digest"]
    assert "null" in run("--table")


def test_without_a_database_the_score_is_told_and_not_stored(run: Run, settings: Settings) -> None:
    found = json.loads(run("--drafter", "null", "--split", "fresh", "--json"))
    assert found["stored"] is None
    assert "db upgrade" in found["not_stored"]


def test_llm_without_an_endpoint_is_not_measured(run: Run, database: str) -> None:
    found = json.loads(run("--drafter", "llm", "--json"))
    assert (found["overall"], found["reason"], found["stored"]) == ("not measured", "no endpoint is set", None)
    assert json.loads(run("--table", "--json")) == []
