"""A migrated SQLite installation in a folder of the test, filled by real sweeps with a scripted child, and a client."""

from __future__ import annotations

import os
import re
import runpy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database import migrate
from pipeline.database.accounts import ensure_principal, issue, local_reviewer
from pipeline.database.engine import dispose_engines
from pipeline.database.models import PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.settings import Settings, get_settings
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import close_finished, start_sweep
from pipeline.work.models import Run
from pipeline.work.process import ChildResult
from pipeline.work.worker import work_on

CHILD = Path(__file__).parent / "story_child.py"
PROFILE = "profile-2026-08"
BASE_URL = "http://127.0.0.1:8000"
Sweep = Callable[..., int]


def in_this_process(argv: list[str], **_how: Any) -> ChildResult:
    """A stage's child without a process of its own: what processes do is tested where they are made."""
    runpy.run_path(str(CHILD))["main"](argv[-3:])
    return ChildResult(0, None, "", 0.1, 50.0, "", "")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of an embedded installation on loopback, with the scripted child."""
    for name in [
        name for name in os.environ if name.startswith("SPYRE_FACTORY_") and name != "SPYRE_FACTORY_TEST_SKIPS"
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPYRE_FACTORY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SPYRE_FACTORY_CHILD_MODULE", str(CHILD))
    monkeypatch.setattr("pipeline.work.starting.run_child", in_this_process)
    monkeypatch.setenv("SPYRE_FACTORY_FREE_DISK_FLOOR_MB", "1")
    (tmp_path / "data").mkdir()
    get_settings.cache_clear()
    yield get_settings()
    dispose_engines()
    get_settings.cache_clear()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with every table and the local reviewer; copies of it cost milliseconds."""
    path = tmp_path_factory.mktemp("template") / "factory.sqlite3"
    migrate.upgrade(f"sqlite:///{path}")
    with unit_of_work(f"sqlite:///{path}") as session:
        local_reviewer(session)
    dispose_engines()
    return path


@pytest.fixture
def database(settings: Settings, template: Path) -> str:
    """The configured database, with every table and the local reviewer."""
    shutil.copy(template, settings.data_dir / template.name)
    return settings.sqlalchemy_url


@pytest.fixture(scope="session")
def app() -> FastAPI:
    """One application for all tests: it keeps nothing of a database."""
    from api.app import create_app

    return create_app()


@pytest.fixture
def client(app: FastAPI, database: str) -> Iterator[TestClient]:
    """A client of nobody, as a program: no cookies, no browser headers."""
    with TestClient(app, base_url=BASE_URL, follow_redirects=False) as opened:
        yield opened


def bearer(name: str, kind: PrincipalKind, *roles: Role) -> dict[str, str]:
    """Headers of a new token of a principal with these roles."""
    with unit_of_work() as session:
        principal = ensure_principal(session, name, kind, roles)
        return {"Authorization": f"Bearer {issue(session, principal, SessionKind.BEARER, 'test').token}"}


@pytest.fixture
def token(database: str) -> Callable[..., dict[str, str]]:
    """Makes headers of a new bearer token: `token("name", PrincipalKind.HUMAN, Role.REVIEWER)`."""
    return bearer


@pytest.fixture
def reviewer(database: str) -> dict[str, str]:
    """Headers of the local reviewer's token."""
    with unit_of_work() as session:
        return {"Authorization": f"Bearer {issue(session, local_reviewer(session), SessionKind.BEARER, 'test').token}"}


@pytest.fixture
def login_token(database: str) -> str:
    """The secret of a fresh one-time link."""
    with unit_of_work() as session:
        return issue(session, local_reviewer(session), SessionKind.LOGIN, "test").token


def listed(name: str, rank: int = 1, **over: Any) -> CatalogueEntry:
    """A catalogue row; models whose names begin alike are one family."""
    config = {
        "model_type": name.split("/")[-1].split("-")[0],
        "hidden_size": 64,
        "num_attention_heads": 2,
        "name": name,
    }
    return CatalogueEntry(model_id=name, rank=rank, **{"downloads": 1_000_000 // rank, "config": config, **over})


def drain() -> int:
    """Do every queued run in this process; how many there were."""
    done = 0
    while (run_id := _next()) is not None:
        assert work_on(run_id)
        done += 1
    with unit_of_work() as session:
        close_finished(session)
    return done


def _next() -> int | None:
    with reading() as session:
        query = select(Run.id).where(Run.state == "queued", Run.not_before.is_(None))
        return session.scalar(query.order_by(Run.priority.desc(), Run.id).limit(1))


def sweep_entries(entries: list[CatalogueEntry], *, finish: bool = True, **options: Any) -> int:
    """Start a sweep over these rows and, unless told otherwise, do its work; its number."""
    with unit_of_work() as session:
        number = start_sweep(session, "test", entries, SweepOptions(PROFILE, **options)).id
    if finish:
        drain()
    return number


@pytest.fixture
def sweep(database: str) -> Sweep:
    """Sweeps models of these names; what becomes of each is in its name (`story_child.py`)."""

    def start(*names: str, **options: Any) -> int:
        return sweep_entries([listed(name, rank) for rank, name in enumerate(names, start=1)], **options)

    return start


@pytest.fixture
def entries(database: str) -> Sweep:
    """Sweeps models given as (name, downloads); other fields of the catalogue row by name."""

    def start(rows: list[tuple[str, int]], *, finish: bool = True, **over: Any) -> int:
        made = [listed(name, rank, downloads=downloads, **over) for rank, (name, downloads) in enumerate(rows, start=1)]
        return sweep_entries(made, finish=finish)

    return start


@pytest.fixture
def work() -> Callable[[], int]:
    """Does every queued run; how many there were."""
    return drain


@pytest.fixture
def browser(client: TestClient, login_token: str) -> TestClient:
    """A client that logged in by the link, as a browser would: cookies, Origin and Accept headers."""
    client.headers.update({"Accept": "text/html", "Origin": BASE_URL, "Sec-Fetch-Site": "same-origin"})
    page = client.get("/login", params={"t": login_token})
    csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert csrf is not None
    answer = client.post("/login", data={"t": login_token, "csrf": csrf.group(1)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return client
