"""Engines: one per process and URL, whichever thread asks first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pipeline.database import engine
from pipeline.database.engine import engine_for


def test_threads_that_ask_at_once_share_one_engine(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of an engine that nobody keeps would stay open until they are collected, in any later test."""
    engine.dispose_engines()
    at_once, build = threading.Barrier(2, timeout=30), engine.build_engine

    def build_together(url: str, **options: Any) -> Any:
        at_once.wait()
        return build(url, **options)

    monkeypatch.setattr(engine, "build_engine", build_together)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: engine_for(), range(2))
    assert first is second
