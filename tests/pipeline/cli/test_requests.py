"""`request` and `status`: in this installation, or at a service by `--server`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli import requests
from pipeline.settings import get_settings


@pytest.fixture
def run() -> Callable[..., str]:
    app = typer.Typer()
    requests.register(app)

    def invoke(*arguments: str, status: int = 0) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == status, result.output
        return result.stdout if status == 0 else result.stderr

    return invoke


class Service(BaseHTTPRequestHandler):
    """Answers as the API does; keeps what was asked."""

    asked: list[tuple[str, str, dict[str, str], Any]] = []  # noqa: RUF012 - one list for the test's one server

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.asked.append((self.command, self.path, dict(self.headers), body))
        missing = self.path.endswith("/none")
        document = (
            {"detail": "There is no request 'none'."}
            if missing
            else {"id": "1", "model": "a/b", "state": "queued", "next": "Wait."}
        )
        content = json.dumps(document).encode()
        self.send_response(404 if missing else 202)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[str]:
    Service.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


def test_a_request_at_a_service(
    run: Callable[..., str], server: str, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_TOKEN", "secret")
    get_settings.cache_clear()
    assert run("request", "a/b", "--note", "hello", "--server", server) == "1  a/b  queued  Wait.\n"
    assert json.loads(run("status", "1", "--server", f"{server}/", "--json"))["state"] == "queued"
    (method, path, headers, body), (_, status_path, _, _) = Service.asked
    assert (method, path, body) == ("POST", "/api/v1/requests", {"model": "a/b", "note": "hello"})
    assert headers["Authorization"] == "Bearer secret"
    assert len(headers["Idempotency-Key"]) == 36
    assert status_path == "/api/v1/requests/1"


def test_what_the_service_refuses_is_its_sentence(run: Callable[..., str], server: str, settings: object) -> None:
    assert run("status", "none", "--server", server, status=1) == "There is no request 'none'.\n"
    assert "cannot be asked" in run("status", "1", "--server", "http://127.0.0.1:9", status=1)


def test_a_configuration_in_place_of_a_model(run: Callable[..., str], database: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert", "hidden_size": 64}))
    assert json.loads(run("request", "--config", str(path), "--json"))["model"].startswith("local/config-")
    assert "either a model or" in run("request", status=1)
    path.write_text("[]")
    assert "not a JSON object" in run("request", "--config", str(path), status=1)
    assert "no configuration" in run("request", "--config", str(tmp_path / "none"), status=1)


def test_an_unknown_model_without_the_hub_names_the_remedies(run: Callable[..., str], database: str) -> None:
    sentence = run("request", "a/none", status=1)
    assert "HF_ENDPOINT" in sentence
    assert "config" in sentence
