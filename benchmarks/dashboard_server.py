"""The dashboard in this process, over a generated database, and a browser: for benchmarks and tests of the pages."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI
    from playwright.sync_api import Browser

BROWSER_ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def prepare(folder: Path, models: int) -> str:
    """A migrated and filled database in `folder`, which becomes the data directory; a one-time login code."""
    from benchmarks.many_models import fill
    from benchmarks.many_reviews import add_reviews
    from pipeline.database import migrate
    from pipeline.database.accounts import issue, local_reviewer
    from pipeline.database.models import SessionKind
    from pipeline.database.unit_of_work import unit_of_work
    from pipeline.settings import get_settings

    os.environ["SPYRE_FACTORY_DATA_DIR"] = str(folder)
    get_settings.cache_clear()
    migrate.upgrade()
    with unit_of_work() as session:
        reviewer = local_reviewer(session)
        fill(session, models)
        add_reviews(session, reviewer)
        return issue(session, reviewer, SessionKind.LOGIN, "benchmark").token


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The address of the dashboard `app`, served until the block ends."""
    import uvicorn

    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the dashboard did not start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without a window; the sandbox is off only where it cannot be used."""
    from playwright.sync_api import sync_playwright

    arguments = [*BROWSER_ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        yield browser
        browser.close()
