"""Fixtures of installations that a test may break."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.installation import Installation, settings_of
from benchmarks.servers import Postgres, Redis
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.engine import dispose_engines
from pipeline.settings import Settings, get_settings
from pipeline.work.broker import prepare_broker
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
    get_settings.cache_clear()
    yield get_settings()
    dispose_engines()
    get_settings.cache_clear()


def prepare(data: Path, **more: str) -> Path:
    """The data directory of a new installation: its tables, key and adapters are the same for every test."""
    data.mkdir()
    with settings_of(data_dir=data, child_module=FAKE_CHILD, free_disk_floor_mb=1, **more) as given:
        prepare_installation(given)
    return data


@pytest.fixture(scope="session")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared data directory with its SQLite database, made once and copied for each test."""
    return prepare(tmp_path_factory.mktemp("sqlite") / "data")


@pytest.fixture(scope="session")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A prepared data directory and the data of its PostgreSQL, made once and copied for each test."""
    folder, postgres = tmp_path_factory.mktemp("postgres"), Postgres()
    try:
        data = prepare(folder / "data", database_url=postgres.url)
        postgres.keep(folder / "cluster")
    finally:
        postgres.close()
    return data, folder / "cluster"


@pytest.fixture
def service(
    on_postgres: tuple[Path, Path], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    """A prepared installation on PostgreSQL and Redis; no process of it runs yet."""
    data, cluster = on_postgres
    shutil.copytree(data, settings.data_dir)
    postgres, redis = Postgres(cluster), Redis()
    monkeypatch.setenv("SPYRE_FACTORY_DATABASE_URL", postgres.url)
    monkeypatch.setenv("SPYRE_FACTORY_BROKER_URL", redis.url)
    get_settings.cache_clear()
    yield from _made(Installation(get_settings(), postgres, redis))


@pytest.fixture
def embedded(on_sqlite: Path, settings: Settings) -> Iterator[Installation]:
    """A prepared installation on SQLite and the embedded broker; no process of it runs yet."""
    shutil.copytree(on_sqlite, settings.data_dir)
    yield from _made(Installation(settings, None, None))


def _made(installation: Installation) -> Iterator[Installation]:
    try:
        prepare_broker(installation.settings)
        yield installation
    finally:
        installation.close()


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
