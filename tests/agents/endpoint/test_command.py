"""`spyre-factory agents demo-endpoint` and `doctor`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from agents.endpoint import serve
from pipeline.cli import agents as command

PROGRAM = "import typer; from pipeline.cli import agents; app = typer.Typer(); agents.register(app); app()"


def run(*arguments: str, **environ: str) -> Any:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, ["agents", *arguments], env=environ)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_endpoint_says_where_it_is_and_ends_on_a_signal(number: signal.Signals) -> None:
    argv = [sys.executable, "-c", PROGRAM, "agents", "demo-endpoint", "--port", "0", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}) as child:
        assert child.stdout is not None
        said = json.loads(child.stdout.readline())
        assert said["model"] == "scripted"
        assert said["url"].startswith("http://127.0.0.1:")
        child.send_signal(number)
        assert child.wait(timeout=30) == 0
        assert child.stderr is not None
        assert child.stderr.read() == ""


def test_a_busy_port_is_one_sentence() -> None:
    with serve() as endpoint:
        result = run("demo-endpoint", "--port", str(endpoint.port))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Port {endpoint.port} cannot be used")


def test_a_broken_script_and_an_unknown_fault_are_one_sentence(tmp_path: Path) -> None:
    result = run("demo-endpoint", "--script", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "cannot be read" in result.stderr
    result = run("demo-endpoint", "--fault", "fire")
    assert result.exit_code == 1
    assert "'fire' is not a fault" in result.stderr


def test_doctor_prints_one_document_and_fails_where_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.settings import get_settings

    monkeypatch.setattr(command, "_try_sandbox", lambda: None)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    get_settings.cache_clear()
    result = run("doctor", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["failed"], report["passed"]) == (1, 2, 1)
    assert "rules drafter does" in run("doctor").stdout


def test_doctor_is_content_with_the_scripted_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.settings import get_settings

    monkeypatch.setattr(command, "_try_sandbox", lambda: None)
    with serve() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        monkeypatch.setenv("SPYRE_FACTORY_LLM_DAILY_BUDGET_USD", "1")
        get_settings.cache_clear()
        result = run("doctor")
    get_settings.cache_clear()
    assert result.exit_code == 0
    assert "The llm drafter can draft." in result.stdout


def test_the_command_modules_import_nothing_heavy() -> None:
    heavy = ["torch", "openai", "transformers"]
    code = f"import sys; import pipeline.cli.agents; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
