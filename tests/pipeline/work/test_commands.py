"""The commands: one JSON document, one sentence for an error, exit code 0 only on success."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli import adapters, coverage, db, requests, review
from pipeline.database.facts import mark_demo
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.review.repository import list_candidates
from pipeline.settings import Settings
from pipeline.work.commands import COMMANDS, argv_of, shell_words

Drain = Callable[[], list[int]]


class Cli:
    """The command line in this process."""

    def __init__(self) -> None:
        self._app = typer.Typer()
        for group in (adapters, coverage, db, requests, review):
            group.register(self._app)

    def __call__(self, *arguments: str, status: int = 0) -> str:
        result = CliRunner().invoke(self._app, list(arguments))
        assert result.exit_code == status, result.output
        return result.stdout if status == 0 else result.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def cli() -> Cli:
    return Cli()


def run_sweep(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys, pipeline.cli.sweep as s, typer; app = typer.Typer(); s.register(app); app(sys.argv[1:])"
    env = {**os.environ, "SPYRE_FACTORY_WORKERS": "2"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env, timeout=120
    )


def test_a_stand_alone_sweep_waits_reports_and_executes_nothing_twice(
    settings: Settings, catalogue_file: Callable[..., Path]
) -> None:
    path = str(catalogue_file("a/stock-one", "a/two", "a/remote-three"))
    first = run_sweep("--catalog", path, "--json")
    assert first.returncode == 0, first.stderr
    report = json.loads(first.stdout)
    assert [row["outcome"] for row in report["models"]] == ["passed", "failed", "failed"]
    assert report["executed"] == 2
    assert report["seconds"] > 0
    again = run_sweep("--catalog", path, "--top", "2")
    assert again.returncode == 0, again.stderr
    assert "0 model executions" in again.stdout
    assert "1 waits for you" in again.stdout
    assert settings.data_dir.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--profile", "profile-1999-01"), "--profile is 'profile-1999-01'"),
        (("--weights", "pickle"), "--weights is 'pickle'"),
        (("--catalog", "no/such/file.jsonl"), "no/such/file.jsonl"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_stores_nothing(
    arguments: tuple[str, ...], sentence: str, settings: Settings
) -> None:
    done = run_sweep(*arguments)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (settings.data_dir / "factory.sqlite3").exists()


def test_upgrade_then_check(cli: Cli, settings: Settings) -> None:
    assert "db upgrade" in cli("db", "check", status=1)
    assert cli.json("db", "upgrade")["revision"] == cli.json("db", "check")["revision"]
    assert cli.json("db", "check")["differences"] == []


def test_review_from_the_queue_to_the_release(
    cli: Cli, database: str, sweep_of: Callable[..., int], drain: Drain
) -> None:
    sweep_of("a/one")
    drain()
    (waiting,) = cli.json("review", "list")["candidates"]
    shown = cli.json("review", "show", "1")
    assert shown["seen"] == waiting["seen"]
    assert waiting["seen"] in cli("review", "show", "1")
    assert "yours" in cli("review", "claim", "1")
    assert "look again" in cli("review", "approve", "1", "--seen", "0" * 64, status=1)
    released = cli.json("review", "approve", "1", "--seen", waiting["seen"], "--reason", "fine")
    assert len(released["runs"]) == 1
    drain()
    assert cli.json("coverage")["passing_synthetic"] == 1
    assert "bert" in cli("coverage", "--by", "family")
    (adapter,) = cli.json("adapters", "list")["adapters"]
    assert cli.json("adapters", "show", str(adapter["id"]))["digest"] == adapter["digest"]
    withdrawn = cli.json("adapters", "withdraw", str(adapter["id"]), "--reason", "wrong")
    assert withdrawn["state"] == "withdrawn"
    assert "no adapter 99" in cli("adapters", "show", "99", status=1)


def test_export_writes_the_manifest(
    cli: Cli, database: str, sweep_of: Callable[..., int], drain: Drain, tmp_path: Path
) -> None:
    sweep_of("a/one")
    drain()
    seen = cli.json("review", "list")["candidates"][0]["seen"]
    cli("review", "approve", "1", "--seen", seen)
    cli("adapters", "export", "1", str(tmp_path / "manifest.json"), "--manifest")
    assert json.loads((tmp_path / "manifest.json").read_text())["origin"] == "service"
    assert "Cannot write" in cli("adapters", "export", "1", str(tmp_path / "no" / "x.json"), "--manifest", status=1)


def test_a_scripted_adapter_is_never_exported_as_bundled(
    cli: Cli, database: str, sweep_of: Callable[..., int], drain: Drain, tmp_path: Path
) -> None:
    sweep_of("a/scripted-one")
    drain()
    seen = cli.json("review", "list")["candidates"][0]["seen"]
    assert "only a demonstration" in cli("review", "approve", "1", "--seen", seen, status=1)
    with unit_of_work() as session:
        mark_demo(session, "test")
    cli("review", "approve", "1", "--seen", cli.json("review", "list")["candidates"][0]["seen"])
    target = tmp_path / "manifest.json"
    assert "demonstration" in cli("adapters", "export", "1", str(target), "--bundled", status=1)
    assert not target.exists()


@pytest.mark.parametrize("what", ["reject", "changes"])
def test_candidates_are_sent_away_with_a_reason(
    what: str, cli: Cli, database: str, sweep_of: Callable[..., int], drain: Drain
) -> None:
    sweep_of("a/one")
    drain()
    assert cli.json("review", what, "1", "--reason", "not so")["reason"] == "not so"
    assert cli("review", "list") == "No candidate waits.\n"
    assert "not wait" in cli("review", what, "1", "--reason", "again", status=1)
    with reading() as session:
        assert list_candidates(session) == []


def test_strike_on_the_command_line(cli: Cli, database: str, sweep_of: Callable[..., int], drain: Drain) -> None:
    sweep_of("a/one")
    drain()
    smaller = cli.json("review", "strike", "1", "--patch", "1", "--reason", "not needed")
    assert smaller["patches"] == ["P01"]
    assert smaller["state"] == "verifying"


def test_request_and_status(cli: Cli, database: str) -> None:
    made = cli.json("request", "sentence-transformers/all-MiniLM-L6-v2")
    assert cli.json("status", made["id"])["state"] == "open"
    assert "a/none" in cli("request", "a/none", status=1)
    assert "no request" in cli("status", "nope", status=1)


def test_one_table_gives_every_command(settings: Settings) -> None:
    for name, command in COMMANDS.items():
        assert argv_of(name, settings)[0] == sys.executable
        assert shell_words(name, settings)[0] == "python"
        assert argv_of(name, settings)[1:] == shell_words(name, settings)[1:]
        assert command.service
    assert str(settings.port) in shell_words("api", settings)
