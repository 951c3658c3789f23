"""How quickly pages of a database with 10,000 models answer: `python -m benchmarks.pages [--json] [--only PATTERN]`.

The database is generated (`benchmarks.many_models`). Each page is asked of a process of its own that starts as the
service does. Server time is the median of several answers after the first one and after what that began beside itself;
the first one of the process is held to a second, and so that nothing hides there, the start of the application is
measured too. "Usable" is measured in Chromium from the beginning of the navigation to the end of loading.
CPU time stands beside wall time, which a busy machine makes longer.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.dashboard_server import chromium, prepare, serving
from benchmarks.figures import Figure, main, median_figure
from benchmarks.many_models import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

SAMPLES = 7
SERVER_MS, USABLE_MS, WEIGHT_KB, ROWS = 300.0, 1_000.0, 500.0, 500.0
START_MS = 5_000.0
"""Our own: what is warmed before the first request must not be felt when the service starts."""
MEASURED = {
    "overview": "/",
    "models": "/models",
    "models narrowed": "/models?outcome=failed&q=bert",
    "models of an operation": "/models?op=aten.pow.default",
}
OTHERS = {
    "models by verdict": "/models?sort=verified",
    "queue": "/review",
    "candidate": "/review/1",
    "operations": "/ops",
    "sweep": "/sweeps/1",
    "comparison": "/sweeps/compare?first=1&second=2",
    "coverage": "/coverage?by=op",
    "adapters": "/adapters",
}
"""Pages that have no target of their own in the issue; they are held to the same."""
NAVIGATION_MS = "performance.getEntriesByType('navigation')[0].loadEventEnd"
BYTES = """performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""


@cache
def _database() -> tempfile.TemporaryDirectory[str]:
    """The folder of the filled database, made once; removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="spyre-pages-")
    prepare(Path(folder.name), MODELS)
    return folder


class Answers(NamedTuple):
    """Of one process, (wall, CPU) milliseconds: until it takes requests, its first answer, and those after it."""

    start: tuple[float, float]
    first: tuple[float, float]
    wall: list[float]
    cpu: list[float]


def server_time() -> Iterable[Figure]:
    """The time to answer, first and median, and the CPU time in it: each page in a process of its own."""
    _database()
    starts = []
    for name, path in {**MEASURED, **OTHERS}.items():
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            found = alone.submit(answers_of_a_process, path).result()
        starts.append(found.start)
        yield _with_cpu(f"{name}, first answer of a process", [found.first], USABLE_MS)
        yield median_figure(f"{name}, server time", found.wall, "ms", SERVER_MS)
        yield median_figure(f"{name}, CPU time", found.cpu, "ms", SERVER_MS)
    yield _with_cpu("start of the application, until it takes requests", starts, START_MS)


def _with_cpu(name: str, taken: list[tuple[float, float]], target: float) -> Figure:
    """The median of the wall times; the CPU time beside it is the whole process's, with what it does meanwhile."""
    return median_figure(name, [wall for wall, _ in taken], "ms", target, [cpu / 1e3 for _, cpu in taken])


def answers_of_a_process(path: str) -> Answers:
    """Start the application here as a server does, and ask it for one page; to be called once in a process."""
    from fastapi.testclient import TestClient

    from api.app import create_app

    began = (time.perf_counter(), time.process_time())
    app = create_app()
    with TestClient(app, base_url="http://127.0.0.1:8000", headers={"Accept": "text/html"}) as client:
        start = (1e3 * (time.perf_counter() - began[0]), 1e3 * (time.process_time() - began[1]))
        first = _asked(client, path)
        app.state.kept.wait()
        _asked(client, path)
        samples = [_asked(client, path) for _ in range(SAMPLES)]
    return Answers(start, first, [wall for wall, _ in samples], [cpu for _, cpu in samples])


def _asked(client: TestClient, path: str) -> tuple[float, float]:
    """Wall and CPU milliseconds of one answer. Raises RuntimeError for one that is not 200."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = client.get(path)
    found = (1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu))
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answered {answer.status_code}")
    return found


@contextmanager
def _page() -> Iterator[tuple[Any, str]]:
    from api.app import create_app

    _database()
    with serving(create_app()) as address, chromium() as browser:
        yield browser.new_page(viewport={"width": 1280, "height": 850}), address


def in_the_browser() -> Iterable[Figure]:
    """Until usable, bytes and rows, in Chromium."""
    with _page() as (page, address):
        for name, path in MEASURED.items():
            page.goto(f"{address}{path}")
            first = page.evaluate(BYTES) / 1e3
            samples = []
            for _ in range(SAMPLES):
                page.goto(f"{address}{path}")
                samples.append(float(page.evaluate(NAVIGATION_MS)))
            yield median_figure(f"{name}, usable", samples, "ms", USABLE_MS)
            yield Figure(f"{name}, weight", round(first, 1), "kB", WEIGHT_KB)
            yield Figure(f"{name}, rows in the document", page.locator("tr").count(), "", ROWS)


GROUPS = {"server": server_time, "browser": in_the_browser}

if __name__ == "__main__":
    sys.exit(main(GROUPS, __doc__))
