"""How quickly pages of a database with 10,000 models answer: `python -m benchmarks.pages [--json] [--only PATTERN]`.

The database is generated (`benchmarks.many_models`). Server time is that of a request inside one process, the median
of several after the first one and after what that began beside itself; the first reads templates, builds statements
and is held to a second. "Usable" is measured in Chromium from the beginning of the navigation to the end of loading.
CPU time stands beside wall time, which a busy machine makes longer.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.dashboard_server import chromium, prepare, serving
from benchmarks.figures import Figure, main, median_figure
from benchmarks.many_models import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

SAMPLES = 7
SERVER_MS, USABLE_MS, WEIGHT_KB, ROWS = 300.0, 1_000.0, 500.0, 500.0
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


def server_time() -> Iterable[Figure]:
    """The time to answer, first and median, and the CPU time in it."""
    from fastapi.testclient import TestClient

    from api.app import create_app

    _database()
    headers = {"Accept": "text/html"}
    for name, path in {**MEASURED, **OTHERS}.items():
        app = create_app()
        client = TestClient(app, base_url="http://127.0.0.1:8000", headers=headers)
        samples = [_asked(client, path)]
        app.state.kept.wait()
        samples += [_asked(client, path) for _ in range(SAMPLES)]
        yield median_figure(f"{name}, first answer of a process", [samples[0][0]], "ms", USABLE_MS)
        yield median_figure(f"{name}, server time", [wall for wall, _ in samples[1:]], "ms", SERVER_MS)
        yield median_figure(f"{name}, CPU time", [cpu for _, cpu in samples[1:]], "ms", SERVER_MS)


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
