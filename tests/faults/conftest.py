"""Fixtures of installations that a test may break."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.installation import Installation
from benchmarks.servers import Postgres, Redis
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.engine import dispose_engines
from pipeline.settings import Settings, get_settings
from pipeline.work.installation import prepare_installation

from ..pipeline.conftest import FAKE_CHILD, listed, wait_until


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of an installation in a folder of this test, with the fake child, in test mode."""
    for name in [n for n in os.environ if n.startswith("SPYRE_FACTORY_") and n != "SPYRE_FACTORY_TEST_SKIPS"]:
        monkeypatch.delenv(name)
    given = {
        "DATA_DIR": tmp_path / "data",
        "CHILD_MODULE": FAKE_CHILD,
        "FREE_DISK_FLOOR_MB": 1,
        "WORKERS": 2,
        "LEASE_SECONDS": 3,
    }
    for name, value in {**given, "LEASE_SECONDS": 3, "TEST_MODE": "true"}.items():
        monkeypatch.setenv(f"SPYRE_FACTORY_{name}", str(value))
    (tmp_path / "data").mkdir()
    get_settings.cache_clear()
    yield get_settings()
    dispose_engines()
    get_settings.cache_clear()


@pytest.fixture
def service(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """A prepared installation on PostgreSQL and Redis; no process of it runs yet."""
    postgres, redis = Postgres(), Redis()
    monkeypatch.setenv("SPYRE_FACTORY_DATABASE_URL", postgres.url)
    monkeypatch.setenv("SPYRE_FACTORY_BROKER_URL", redis.url)
    get_settings.cache_clear()
    made = Installation(get_settings(), postgres, redis)
    try:
        prepare_installation(get_settings())
        yield made
    finally:
        made.close()


@pytest.fixture
def embedded(settings: Settings) -> Iterator[Installation]:
    """A prepared installation on SQLite and the embedded broker; no process of it runs yet."""
    made = Installation(settings, None, None)
    try:
        prepare_installation(settings)
        yield made
    finally:
        made.close()


def free_port() -> int:
    """A port nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def port() -> Callable[[], int]:
    """Gives free ports."""
    return free_port


@pytest.fixture
def wait() -> Callable[..., None]:
    """Waits until a claim holds."""
    return wait_until


@pytest.fixture
def entry() -> Callable[..., CatalogueEntry]:
    """Makes catalogue rows."""
    return listed
