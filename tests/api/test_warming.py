"""The first page of a process waits for nothing that could have been done before."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from api import repository, standing
from api.app import create_app
from api.pages.rendering import environment
from pipeline.database.events import emit
from pipeline.database.unit_of_work import reading, unit_of_work

COUNTED = ("families_by_profile", "coverage_over_time", "catalogue_changes", "listing_to_verdict_s")
PAGE = {"Accept": "text/html"}


def refuse(*_args: Any, **_options: Any) -> Any:
    raise AssertionError("this was to be done before the first request")


@pytest.fixture
def fresh(database: str) -> FastAPI:
    """An application as a new process has it: nothing is counted or compiled."""
    environment.cache_clear()
    return create_app()


def started(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def test_the_first_overview_counts_and_compiles_nothing(fresh: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(fresh) as client:
        for name in COUNTED:
            monkeypatch.setattr(standing, name, refuse)
        monkeypatch.setattr(repository, "blocking_ops", refuse)
        monkeypatch.setattr(jinja2.Environment, "compile", refuse)
        assert client.get("/", headers=PAGE).status_code == 200


def test_what_was_counted_at_the_start_is_counted_again_once_something_has_happened(fresh: FastAPI) -> None:
    with started(fresh):
        with unit_of_work() as session:
            emit(session, "sweep.started", "sweep", 1)
        with reading() as session:
            assert fresh.state.kept.get(session, "families", lambda: "counted again").value == "counted again"


def test_a_fault_of_the_overview_is_logged_and_takes_no_other_page_away(
    fresh: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "families_by_profile", refuse)
    with capture_logs() as said, started(fresh) as client:
        assert client.get("/models", headers=PAGE).status_code == 200
    assert [(line["event"], line["exc_info"]) for line in said] == [("overview.not_counted", True)]
