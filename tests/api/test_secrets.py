"""A key of this process, sent back by an endpoint, is in no page, answer, metric, error page or log line."""

from __future__ import annotations

import io
import json
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from agents.endpoint import Script, Step, serve
from agents.redact import HIDDEN
from pipeline.database.unit_of_work import reading
from pipeline.work import logs
from pipeline.work.models import Run

CANARY = "canary-secret-9e27b4"
DRIVER = runpy.run_path(str(Path(__file__).parents[1] / "pipeline" / "drafting" / "kill_driver.py"))
STEPS = (
    Step(tool="show_diagnosis", say=CANARY),
    Step(tool=CANARY, arguments={CANARY: CANARY}),
    Step(status=500, say=f"bad key {CANARY}"),
)
PAGES = ("/", "/models", "/review", "/rules", "/adapters", "/ops", "/scores", "/audit", "/settings", "/requests")
ANSWERS = ("/metrics", "/readyz", "/api/v1/costs", "/api/v1/bench", "/api/v1/models", "/api/v1/reviews")
WRONG = ("/no-such-page", "/api/v1/no-such-thing", "/api/v1/models?cursor=x", "/models/a/none")
BROKEN = "/api/v1/bench"


@pytest.fixture
def drafted(sweep: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft whose endpoint says this process's key in every way it can."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    sweep("a/one")
    with reading() as session:
        run_id = session.scalars(select(Run.id)).first()
    with serve(scripts=[Script("echo", ("Patch `",), STEPS, advance="answers", then="repeat")]) as endpoint:
        DRIVER["drafted"](run_id, endpoint.url)


@pytest.fixture
def lenient(app: FastAPI, database: str) -> Iterator[TestClient]:
    """A client that is given the error page where the service breaks."""
    with TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as opened:
        yield opened


@pytest.mark.usefixtures("drafted")
def test_no_page_answer_or_metric_holds_the_key(client: TestClient, reviewer: dict[str, str]) -> None:
    for path in (*PAGES, *ANSWERS):
        answer = client.get(path, headers={**reviewer, "Accept": "text/html"})
        assert answer.status_code < 500, path
        assert CANARY not in answer.text, path
    assert client.get("/metrics", headers=reviewer).text.count("spyre_factory_") > 5


@pytest.mark.usefixtures("drafted")
def test_no_error_page_holds_the_key(
    lenient: TestClient, reviewer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError(f"Authorization: Bearer {CANARY}")

    monkeypatch.setattr("api.rest.bench.score_table", broken)
    for kind in ("text/html", "application/json"):
        for path in (*WRONG, BROKEN):
            answer = lenient.get(path, headers={**reviewer, "Accept": kind})
            assert answer.status_code >= 400, path
            assert CANARY not in answer.text, path
        assert lenient.get(BROKEN, headers={**reviewer, "Accept": kind}).status_code == 500


def test_no_line_of_the_log_holds_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    written = io.StringIO()
    before = structlog.get_config()
    monkeypatch.setattr("sys.stderr", written)
    try:
        logs.configure_logging()
        try:
            raise RuntimeError(f"Incorrect API key provided: {CANARY}")
        except RuntimeError:
            structlog.get_logger("x").exception("draft_failed", seen=[CANARY, Path(CANARY)], turns=3)
    finally:
        structlog.configure(**before)
    line = json.loads(written.getvalue())
    assert CANARY not in written.getvalue()
    assert (line["turns"], line["seen"][0]) == (3, HIDDEN)
    assert HIDDEN in line["exception"]
