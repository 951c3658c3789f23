"""The dashboard on a port of its own, and Debian's Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser

from benchmarks import dashboard_server


@pytest.fixture
def dashboard(app: FastAPI, database: str) -> Iterator[str]:
    """The address of the running dashboard."""
    with dashboard_server.serving(app) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium without a window."""
    with dashboard_server.chromium() as browser:
        yield browser
