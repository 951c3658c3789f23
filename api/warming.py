"""What the first page of a process would have to wait for, done before the process takes requests.

Templates are compiled, statements built and the figures of the overview counted; the ranking of a large catalogue
begins beside that. A database that cannot be read is no reason not to start: every page then says what is wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from api.kept import Kept
from api.pages.overview import overview
from api.pages.rendering import compile_templates, static_files
from pipeline.errors import FactoryError

log = structlog.get_logger("api")


@asynccontextmanager
async def warmed(app: FastAPI) -> AsyncIterator[None]:
    """The lifespan of the application: warm from its first request on."""
    await run_in_threadpool(warm, app.state.kept)
    yield


def warm(kept: Kept) -> None:
    """Do now what a first request would do. A fault of the overview is logged: the other pages must be served."""
    compile_templates()
    static_files()
    try:
        overview(kept)
    except Exception as error:
        log.warning("overview.not_counted", detail=str(error), exc_info=not isinstance(error, FactoryError))
    kept.forget_costs()
