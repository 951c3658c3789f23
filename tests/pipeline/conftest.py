"""Databases, brokers and rows for the tests of the service. Servers are the test run's own, on sockets."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.servers import answers_sql, start_postgres, wait_until
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database import migrate
from pipeline.database.engine import dispose_engines
from pipeline.database.unit_of_work import unit_of_work
from pipeline.settings import Settings, get_settings
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep
from pipeline.work.models import Run
from pipeline.work.process import ChildResult, kill_tree, reaper_command

FAKE_CHILD = Path(__file__).parent / "work" / "fake_child.py"


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """A running PostgreSQL whose socket is in this folder; the role is `factory`."""
    folder = Path(tempfile.mkdtemp(prefix="sfpg"))
    try:
        server = start_postgres(folder)
        wait_until(lambda: answers_sql(folder))
        yield folder
        os.kill(int((folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGINT)
        server.wait(20)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_template(postgres_folder: Path) -> str:
    """The name of a database that has every table; copies of it cost milliseconds."""
    execute(postgres_folder, "CREATE DATABASE template_factory")
    migrate.upgrade(postgres_url(postgres_folder, "template_factory"))
    dispose_engines()
    return "template_factory"


def execute(folder: Path, statement: str) -> None:
    with psycopg.connect(host=str(folder), user="factory", dbname="postgres", autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]


def postgres_url(folder: Path, name: str) -> str:
    return f"postgresql+psycopg://factory@/{name}?host={folder}"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that has every table, made by the real migrations."""
    path = tmp_path_factory.mktemp("template") / "template.sqlite3"
    migrate.upgrade(f"sqlite:///{path}")
    dispose_engines()
    return path


@pytest.fixture
def empty_postgres_url(postgres_folder: Path) -> Iterator[str]:
    """An empty PostgreSQL database of this test."""
    yield from fresh_database(postgres_folder, "")


def fresh_database(folder: Path, how: str) -> Iterator[str]:
    name = f"t{os.urandom(6).hex()}"
    execute(folder, f"CREATE DATABASE {name} {how}")
    yield postgres_url(folder, name)
    dispose_engines()
    execute(folder, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def redis_url() -> Iterator[str]:
    """A Redis of this test on a socket; it keeps nothing on disk."""
    folder = Path(tempfile.mkdtemp(prefix="sfrd"))
    options = [
        "--port",
        "0",
        "--unixsocket",
        str(folder / "s"),
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
    ]
    server = subprocess.Popen(reaper_command(["redis-server", *options]), stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (folder / "s").exists())
        yield f"redis+socket://{folder / 's'}"
    finally:
        kill_tree(server)
        shutil.rmtree(folder)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of an installation in a folder of this test, with the fake child; the database is still empty."""
    for name in [
        name for name in os.environ if name.startswith("SPYRE_FACTORY_") and name != "SPYRE_FACTORY_TEST_SKIPS"
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPYRE_FACTORY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SPYRE_FACTORY_CHILD_MODULE", str(FAKE_CHILD))
    monkeypatch.setenv("SPYRE_FACTORY_FREE_DISK_FLOOR_MB", "1")
    (tmp_path / "data").mkdir()
    get_settings.cache_clear()
    yield get_settings()
    dispose_engines()
    get_settings.cache_clear()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The configured database with every table, on SQLite and on PostgreSQL; the value is its URL."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), settings.data_dir / "factory.sqlite3")
        yield settings.sqlalchemy_url
        return
    folder, template = request.getfixturevalue("postgres_folder"), request.getfixturevalue("postgres_template")
    databases = fresh_database(folder, f"TEMPLATE {template}")
    url = next(databases)
    monkeypatch.setenv("SPYRE_FACTORY_DATABASE_URL", url)
    get_settings.cache_clear()
    yield url
    next(databases, None)


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    """A writing transaction on the database; committed at the end of the test."""
    with unit_of_work() as opened:
        yield opened


def listed(name: str, rank: int = 1, **over: Any) -> CatalogueEntry:
    """A catalogue row with a small configuration."""
    config = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2, "hidden_act": "gelu", "name": name}
    return CatalogueEntry(model_id=name, rank=rank, **{"downloads": 1000 // rank, "config": config, **over})


@pytest.fixture
def catalogue_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a catalogue file that lists these names in order; returns its path."""

    def write(*names: str) -> Path:
        rows = [
            {"rank": rank, "model_id": name, "downloads": 1000 // rank, "config_ref": name}
            for rank, name in enumerate(names, start=1)
        ]
        configs = {name: {"config": listed(name).config} for name in names}
        (tmp_path / "hub_configs.json").write_text(json.dumps(configs))
        path = tmp_path / "catalogue.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows))
        return path

    return write


@pytest.fixture
def entry() -> Callable[..., CatalogueEntry]:
    """Makes catalogue rows."""
    return listed


@pytest.fixture
def wait() -> Callable[..., None]:
    """Waits until a claim holds."""
    return wait_until


@pytest.fixture
def drain(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """Does every queued run in this process, in the order of the queue; returns their numbers. No child is started."""
    from pipeline.database.unit_of_work import reading
    from pipeline.work.worker import work_on

    monkeypatch.setattr("pipeline.work.starting.run_child", run_in_process)

    def run_all() -> list[int]:
        done: list[int] = []
        while (run_id := next_queued()) is not None:
            assert work_on(run_id)
            done.append(run_id)
        return done

    def next_queued() -> int | None:
        with reading() as session:
            query = select(Run.id).where(Run.state == "queued", Run.not_before.is_(None))
            return session.scalar(query.order_by(Run.priority.desc(), Run.id).limit(1))

    return run_all


def run_in_process(argv: list[str], **_: Any) -> ChildResult:
    """The fake child's answer without a process; a model whose name asks for a crash gets one."""
    stage, spec, out = argv[-3:]
    if stage == "capture" and "crash" in json.loads(Path(spec).read_text())["model"]:
        return ChildResult(-11, "crashed", "The child was ended by SIGSEGV.", 0.1, 1.0, "", "")
    fake = runpy.run_path(str(FAKE_CHILD))
    fake["answer"](stage, Path(spec), Path(out))
    return ChildResult(0, None, "", 0.1, 1.0, "", "")


@pytest.fixture
def sweep_of(entry: Callable[..., CatalogueEntry]) -> Callable[..., int]:
    """Starts a sweep over models of these names; returns its number."""

    def start(*names: str, source: str = "test", **options: Any) -> int:
        entries = [entry(name, rank) for rank, name in enumerate(names, start=1)]
        with unit_of_work() as session:
            chosen = SweepOptions("profile-2026-08", **options)
            return start_sweep(session, source, entries, chosen).id

    return start
