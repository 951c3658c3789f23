"""`capabilities`: the document for schedulers, and its published schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from pipeline.cli import capabilities as command
from pipeline.database.unit_of_work import unit_of_work
from pipeline.sweeps.capabilities import Capabilities
from pipeline.sweeps.models import CheckpointStatus

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "capabilities-1.json"


def test_the_published_schema_is_that_of_the_types() -> None:
    assert json.loads(SCHEMA.read_text()) == Capabilities.model_json_schema()


def test_models_with_a_verdict_are_listed_and_scripted_ones_left_out(
    database: str, sweep_of: Callable[..., int], drain: Callable[..., object]
) -> None:
    sweep_of("a/one", "a/two")
    drain()
    app = typer.Typer()
    app.callback()(lambda: None)
    command.register(app)
    found = CliRunner().invoke(app, ["capabilities", "--json"])
    document = Capabilities.model_validate_json(found.stdout)
    assert {entry.model for entry in document.capabilities} == {"a/one", "a/two"}
    assert all(e.profile == "profile-2026-08" for e in document.capabilities)
    with unit_of_work() as session:
        for status in session.query(CheckpointStatus):
            status.scripted = True
    assert json.loads(CliRunner().invoke(app, ["capabilities", "--json"]).stdout)["capabilities"] == []


def test_an_unknown_key_breaks_the_schema() -> None:
    with pytest.raises(ValidationError):
        Capabilities.model_validate({"format": 1, "demo": False, "capabilities": [], "more": 1})
