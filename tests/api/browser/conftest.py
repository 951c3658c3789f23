"""The dashboard on a port of its own, Debian's Chromium, and an installation in which every page has something to show.

The installation is made once per worker and copied for each test: what a test decides is its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page, expect
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import dashboard_server
from benchmarks.many_models import LONGEST_NAME, MODELS, fill
from pipeline.database.accounts import ensure_principal, issue, local_reviewer
from pipeline.database.engine import dispose_engines
from pipeline.database.models import PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import unit_of_work
from pipeline.requests.service import create_request
from pipeline.review.models import CandidateRow
from pipeline.review.service import approve, request_changes, seen_digest
from pipeline.settings import Settings, get_settings

from ..conftest import CHILD, PROFILE, drain, in_this_process, listed, sweep_entries

MODEL, RELEASED, RETURNED = "acme/albert-one", "acme/electra-released", "f/gte-returned"
HOSTILE = "d/mpnet-hostile"
HOSTILE_TEXT = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
REFUSED = "Failed to load resource: the server responded with a status of 4"
"""What Chromium says of an answer that refuses; a script or style that is missing says more."""
HOSTILE_NAME = f"x/{HOSTILE_TEXT}"
NAMES = (MODEL, "acme/bert-stock-real", "b/nomic-remote", "c/xlm-unsure", "e/scripted-four", HOSTILE, LONGEST_NAME)
PATHS = (
    "/", "/models", "/models?columns=family&columns=weights&columns=verified&columns=rank&sort=status&reverse=yes",
    "/models?q=no-such-model", f"/models/{MODEL}", f"/models/{RELEASED}", f"/models/{HOSTILE}",
    f"/models/{LONGEST_NAME}", "/models/b/nomic-remote", "/review", "/review?state=all", "/review/1", "/review/2",
    "/review/3", "/rules", "/rules?state=all", "/requests", "/adapters", "/adapters/1", "/sweeps", "/sweeps/1",
    "/coverage", "/coverage?by=op", "/coverage?by=release", "/ops", "/profiles", "/profiles/latest",
    "/profiles/compare?a=profile-2026-04&b=latest", "/scores", "/audit", "/audit?kind=candidate", "/settings",
    "/login", "/blind", "/nope",
)  # fmt: skip
"""Pages whose paths are known beforehand, in the states that the installation has."""


class Story(NamedTuple):
    """An installation on disk, its running sweep and its open request."""

    folder: Path
    sweep: int
    request: str

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of every page."""
        running = (f"/sweeps/{self.sweep}", f"/sweeps/compare?first=1&second={self.sweep}")
        return (*PATHS, *running, f"/requests/{self.request}")


class Watched:
    """A page whose console and requests are kept."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.page: Page = context.new_page()
        self.address = address
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: str) -> Page:
        """The page at this path, loaded."""
        self.page.goto(f"{self.address}{path}")
        return self.page

    def check(self) -> None:
        """Nothing on the console but that a page was refused, as it had to be; no request to any other host."""
        assert [text for text in self.said if not text.startswith(REFUSED)] == []
        assert {urlsplit(url).netloc for url in self.asked} <= {urlsplit(self.address).netloc}


@pytest.fixture
def dashboard(app: FastAPI, database: str) -> Iterator[str]:
    """The address of the running dashboard over an empty installation."""
    with dashboard_server.serving(app) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium without a window."""
    with dashboard_server.chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def told(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Sweeps, candidates in every state that matters, an adapter, a request: made once."""
    folder = tmp_path_factory.mktemp("told")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPYRE_FACTORY_DATA_DIR", str(folder))
        patched.setenv("SPYRE_FACTORY_CHILD_MODULE", str(CHILD))
        patched.setenv("SPYRE_FACTORY_FREE_DISK_FLOOR_MB", "1")
        patched.setattr("pipeline.work.starting.run_child", in_this_process)
        get_settings.cache_clear()
        shutil.copy(template, folder / template.name)
        story = Story(folder, *_tell())
        dispose_engines()
    get_settings.cache_clear()
    return story


def _tell() -> tuple[int, str]:
    sweep_entries([listed(name, rank) for rank, name in enumerate(NAMES, start=1)])
    sweep_entries([listed(RELEASED, 8), listed(RETURNED, 9)])
    with unit_of_work() as session:
        reviewer = local_reviewer(session)
        released, returned = (_candidate_of(session, word) for word in ("electra", "gte"))
        approve(session, released.id, reviewer, seen=seen_digest(released), reason=f"agreed {HOSTILE_TEXT}")
        request_changes(session, returned.id, reviewer, reason=HOSTILE_TEXT)
    drain()
    running = [listed(name, rank) for rank, name in enumerate((*NAMES[:3], HOSTILE_NAME), start=1)]
    sweep = sweep_entries(running, finish=False)
    with unit_of_work() as session:
        made = create_request(session, LONGEST_NAME, PROFILE, principal=local_reviewer(session), note=HOSTILE_TEXT)
        return sweep, made.request.id


def _candidate_of(session: Session, family: str) -> CandidateRow:
    return session.scalars(select(CandidateRow).where(CandidateRow.family.startswith(family))).one()


@pytest.fixture
def story(told: Story, settings: Settings, app: FastAPI) -> Iterator[str]:
    """The address of the dashboard over a copy of the installation."""
    shutil.copytree(told.folder, settings.data_dir, dirs_exist_ok=True)
    with dashboard_server.serving(app) as address:
        yield address


@pytest.fixture(scope="session")
def large_folder(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 10,000 models."""
    folder = tmp_path_factory.mktemp("large")
    shutil.copy(template, folder / template.name)
    with unit_of_work(f"sqlite:///{folder / template.name}") as session:
        fill(session, MODELS)
    dispose_engines()
    return folder


@pytest.fixture
def large(large_folder: Path, settings: Settings, app: FastAPI) -> Iterator[str]:
    """The address of the dashboard over 10,000 models."""
    shutil.copytree(large_folder, settings.data_dir, dirs_exist_ok=True)
    with dashboard_server.serving(app) as address:
        yield address
    app.state.kept.wait()


@pytest.fixture
def visitor(chromium: Browser) -> Iterator[Callable[..., Watched]]:
    """Opens a browser of its own at an address: `visitor(address, reviewer="name")`; what it saw is checked at the end.

    `options` are Playwright's of a context. With `reviewer` it has that person's session.
    """
    opened: list[Watched] = []

    def visit(address: str, reviewer: str = "", **options: Any) -> Watched:
        context = chromium.new_context(**options)
        if reviewer:
            context.add_cookies([session_cookie(reviewer)])  # type: ignore[list-item]
        opened.append(Watched(context, address))
        return opened[-1]

    yield visit
    for watched in opened:
        watched.page.context.close()
    for watched in opened:
        watched.check()


def session_cookie(name: str) -> dict[str, str]:
    """The cookie of a new session of a human reviewer."""
    with unit_of_work() as session:
        roles = [Role.REVIEWER, Role.REQUESTER, Role.VIEWER]
        principal = ensure_principal(session, name, PrincipalKind.HUMAN, roles)
        token = issue(session, principal, SessionKind.COOKIE, "test").token
    return {"name": f"spyre_session_{get_settings().port}", "value": token, "domain": "127.0.0.1", "path": "/"}


@pytest.fixture
def login_link(story: str) -> str:
    """The path of a fresh one-time link of the local reviewer."""
    with unit_of_work() as session:
        return f"/login?t={issue(session, local_reviewer(session), SessionKind.LOGIN, 'test').token}"


def press(page: Page, key: str) -> None:
    """A key of the review, once the page's script listens for keys: it shows their names then."""
    expect(page.locator(".keys")).to_be_visible()
    page.keyboard.press(key)
