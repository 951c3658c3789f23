"""`spyre-factory --server URL`: commands ask the service, and say what they would say at home."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
import typer
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from pipeline.cli import client as thin
from pipeline.cli import remote
from pipeline.cli.main import build_app
from pipeline.errors import BadInput
from pipeline.settings import get_settings

URL = "http://127.0.0.1:8000"
Run = Callable[..., Any]


def through(client: TestClient) -> httpx.MockTransport:
    """What the command's own client sends, as the test's client sends it."""

    def handle(request: httpx.Request) -> httpx.Response:
        answer = client.request(
            request.method, str(request.url), headers=dict(request.headers), content=request.content
        )
        return httpx.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)

    return httpx.MockTransport(handle)


@pytest.fixture
def run(
    client: TestClient, sweep: Callable[..., int], reviewer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Runs a command with `--json`, at the service if it says so; what it printed, or the sentence it refused with."""
    sweep("acme/albert-one", "acme/bert-stock-real")
    monkeypatch.setenv("SPYRE_FACTORY_TOKEN", reviewer["Authorization"].removeprefix("Bearer "))
    get_settings.cache_clear()
    monkeypatch.setattr(thin, "Client", partial(thin.Client, transport=through(client)))
    app: typer.Typer = build_app()

    def invoke(*words: str) -> Any:
        arguments = remote.take_server(words)
        done = CliRunner().invoke(app, [*arguments, "--json"])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code:
            return done.stderr.strip()
        return json.loads(done.stdout[done.stdout.index("{\n") :])  # the API of this process logs before it

    yield invoke
    remote.take_server([])


@pytest.mark.parametrize("words", [("coverage",), ("coverage", "--by", "op"), ("ops",), ("capabilities",)])
def test_a_service_prints_what_this_installation_prints(words: tuple[str, ...], run: Run) -> None:
    assert run("--server", URL, *words) == run(*words)


def test_models_and_lists_are_the_same_there(run: Run) -> None:
    there, here = (run(*words)["models"] for words in (("--server", URL, "models"), ("models",)))
    assert [{name: row[name] for name in here[0]} for row in there] == here
    assert [row["model"] for row in run("models", "--outcome", "failed", f"--server={URL}")["models"]] == [
        "acme/albert-one"
    ]
    assert run("--server", URL, "evidence", "list")["evidence"][0]["id"] == run("evidence", "list")["evidence"][0]["id"]
    there, here = (run(*words)["candidates"] for words in (("--server", URL, "review", "list"), ("review", "list")))
    assert [row["seen"] for row in there] == [row["seen"] for row in here]


def test_a_candidate_is_claimed_and_released_there(run: Run) -> None:
    number = run("--server", URL, "review", "list")["candidates"][0]["id"]
    assert run("--server", URL, "review", "claim", str(number))["id"] == number
    refused = run("--server", URL, "review", "approve", str(number), "--seen", "0" * 64)
    assert "approved" in refused
    seen = run("--server", URL, "review", "show", str(number))["seen"]
    done = run("--server", URL, "review", "approve", str(number), "--seen", seen)
    assert run("--server", URL, "adapters", "list") == run("adapters", "list")
    assert run("--server", URL, "adapters", "show", str(done["adapter"]))["origin"] == "service"


def test_a_request_made_there_is_followed_there(run: Run) -> None:
    made = run("--server", URL, "request", "acme/albert-one")
    assert run("status", made["id"], "--server", URL)["state"] == "review"


@pytest.mark.parametrize("words", [("db", "check"), ("up",), ("queue", "pause"), ("adapters", "withdraw", "1")])
def test_what_is_about_this_machine_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="about this installation"):
        remote.take_server(["--server", URL, *words])


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x"])
def test_a_server_is_a_url(url: str) -> None:
    with pytest.raises(BadInput, match="URL of a service"):
        remote.take_server(["coverage", "--server", url])


def test_a_service_measures_evidence_again_and_says_what_came_of_it(run: Run, work: Callable[[], int]) -> None:
    number = str(run("--server", URL, "evidence", "list")["evidence"][0]["id"])
    asked = run("--server", URL, "evidence", "replay", number)
    assert (asked["state"], asked["outcome"]) == ("queued", None)
    work()
    assert run("--server", URL, "evidence", "replay", number)["outcome"] == "passed"
    assert "by its number" in run("--server", URL, "evidence", "replay", "abcdef0123")
