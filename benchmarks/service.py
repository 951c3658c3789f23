"""What the service costs: `python -m benchmarks.service [--json] [--only PATTERN]`.

Everything runs on a PostgreSQL and a Redis of its own with a generated database of 10,000 models. Costs are CPU time
(user and system), because machines that measure have other things to do: `server` is the API process, `database` the
PostgreSQL processes that served it. Overhead is what worker and dispatcher spend on a run beside its child; throughput
is wall time, so it needs idle cores to mean anything (the load is in `environment`).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil
from sqlalchemy import func, select

from api.events import encode
from benchmarks.figures import Figure, main, median_figure
from benchmarks.installation import Installation, Process, settings_of
from benchmarks.servers import Postgres, Redis, wait_until
from benchmarks.service_data import PROFILE, fill
from pipeline.catalogue.entry import CatalogueEntry
from pipeline.database.accounts import ensure_principal, issue
from pipeline.database.events import stream_of
from pipeline.database.models import OutboxEvent, PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.requests.models import RequestRow
from pipeline.settings import get_settings
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep
from pipeline.work.control import pause_queue, resume_queue
from pipeline.work.installation import prepare_installation

MODELS = 10_000
CHILD = Path(__file__).parent / "service_child.py"
WARM, MEASURED, BATCHES = 30, 40, 5
RUNS = 40
"""Models of a sweep whose runs are timed; each has three stages."""
STREAMS, POSTS = 50, 1_000
MEMORY_S, MEMORY_SETTLE_S = 600.0, 60.0
END_S = 600.0


@contextmanager
def installation(models: int = 0, **settings: object) -> Iterator[Installation]:
    """A prepared installation on its own servers, with that many generated models; nothing of it runs yet."""
    with TemporaryDirectory(prefix="sfbench") as folder:
        made = Installation(get_settings(), Postgres(), Redis())
        given: dict[str, object] = {"data_dir": folder, "database_url": made.postgres.url}
        given |= {"broker_url": made.redis.url, "child_module": CHILD, "free_disk_floor_mb": 1}
        with settings_of(**{**given, **settings}) as made.settings:
            try:
                prepare_installation(made.settings)
                with unit_of_work() as session:
                    fill(session, models)
                made.postgres.analyze()
                yield made
            finally:
                made.close()


class Api:
    """An API process of an installation, what it has cost so far, and a client with an admin's token."""

    def __init__(self, made: Installation, port: int) -> None:
        self._postgres = made.postgres
        self.process = made.start("api", port=str(port))
        self.url = f"http://127.0.0.1:{port}"
        with unit_of_work() as session:
            who = ensure_principal(session, "benchmark", PrincipalKind.HUMAN, [Role.ADMIN])
            token = issue(session, who, SessionKind.BEARER, "benchmark").token
        self.client = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60, limits=httpx.Limits()
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return self.client.get("/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> None:
        """One request that has to succeed."""
        self.client.get(path).raise_for_status()

    def cost_ms(self, path: str) -> tuple[list[float], list[float]]:
        """CPU per request, by batches: of the API process and of the database's processes."""
        for _ in range(WARM):
            self.get(path)
        server, database = [], []
        for _ in range(BATCHES):
            before = cpu_s([self.process.pid]), cpu_s(self._postgres.processes())
            for _ in range(MEASURED):
                self.get(path)
            server.append(1000 * (cpu_s([self.process.pid]) - before[0]) / MEASURED)
            database.append(1000 * (cpu_s(self._postgres.processes()) - before[1]) / MEASURED)
        return server, database


def cpu_s(pids: list[int]) -> float:
    """User and system time of processes themselves, not of their children."""
    total = 0.0
    for pid in pids:
        try:
            spent = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
    return total


PAGES = {
    "models list, 50 rows": "/api/v1/models?limit=50",
    "models list, second page": "/api/v1/models?limit=50&cursor={cursor}",
    "models list, failed ones": "/api/v1/models?limit=50&outcome=failed",
    "models list, search": "/api/v1/models?limit=50&search=0042",
    "coverage": "/api/v1/coverage",
    "coverage by family": "/api/v1/coverage?by=family",
}


def requests_cost() -> Iterator[Figure]:
    """Coverage and the list of models on 10,000 models."""
    with installation(MODELS) as made:
        api = Api(made, free_port())
        cursor = api.client.get("/api/v1/models?limit=50").raise_for_status().json()["next"]
        for name, path in PAGES.items():
            server, database = api.cost_ms(path.format(cursor=cursor))
            yield median_figure(f"{name}: server", server, "ms", 3.0)
            yield median_figure(f"{name}: database", database, "ms", 30.0)


def free_port() -> int:
    """A port nothing listens on now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_work(kind: str, models: int) -> int:
    """A sweep over models whose children do what `kind` says (`benchmarks/service_child.py`); its number."""
    rows = [
        CatalogueEntry(
            model_id=f"bench/{kind}-{n:04}", rank=n, downloads=models - n, config={"model_type": "bert", "n": n}
        )
        for n in range(1, models + 1)
    ]
    with unit_of_work() as session:
        return start_sweep(session, f"benchmark {kind}", rows, SweepOptions(PROFILE)).id


def has_ended(sweep: int) -> bool:
    """True once every run of the sweep has ended."""
    with reading() as session:
        return sweeps.count_unfinished_runs(session, sweep) == 0


def wait_for(sweep: int) -> None:
    """Wait for the end of a sweep."""
    wait_until(lambda: has_ended(sweep), END_S)


def count_passed(sweep: int) -> int:
    """Runs of the sweep that passed."""
    with reading() as session:
        return sum(run.outcome == "passed" for run, _ in sweeps.sweep_runs(session, sweep))


def start_workers(made: Installation, workers: int) -> list[Process]:
    """The worker with so many slots, and the dispatcher, at rest: one run has been done."""
    processes = [made.start(name, workers=str(workers)) for name in ("worker", "dispatcher")]
    warm = start_work("quick", workers * 2)
    wait_for(warm)
    return processes


def own_pids(processes: list[Process]) -> list[int]:
    """The processes of the command table and their Celery pools, without the children that do the work."""
    found = []
    for process in processes:
        found += [process.pid, *(p.pid for p in psutil.Process(process.pid).children() if "celery" in p.name().lower())]
        found += [p.pid for p in psutil.Process(process.pid).children() if "celery" in " ".join(p.cmdline())]
    return sorted(set(found))


def overhead() -> Iterator[Figure]:
    """What a run costs beside its child."""
    with installation(MODELS, workers=1) as made:
        processes = start_workers(made, 1)
        pids = own_pids(processes)
        samples, database = [], []
        for part in range(3):
            before = cpu_s(pids), cpu_s(made.postgres.processes())
            sweep = start_work(f"quick-{part}", RUNS)
            wait_for(sweep)
            runs = count_passed(sweep)
            assert runs == 3 * RUNS, f"{runs} runs passed"
            samples.append(1000 * (cpu_s(pids) - before[0]) / runs)
            database.append(1000 * (cpu_s(made.postgres.processes()) - before[1]) / runs)
        yield median_figure("overhead per run: worker and dispatcher", samples, "ms", 10.0)
        yield median_figure("overhead per run: database", database, "ms", 10.0)


def throughput() -> Iterator[Figure]:
    """Runs per second with two slots over those with one."""
    for kind, target in (("sleep", 1.9), ("compute", 1.5)):
        taken = {workers: _seconds(kind, workers) for workers in (1, 2)}
        ratio = round(taken[1] / taken[2], 3)
        yield Figure(f"two workers over one, {kind}", ratio, "x", target, tuple(taken.values()), at_least=True)


def _seconds(kind: str, workers: int) -> float:
    with installation(workers=workers) as made:
        start_workers(made, workers)
        with unit_of_work() as session:
            pause_queue(session, "benchmark")
        sweep = start_work(kind, 10)
        with unit_of_work() as session:
            resume_queue(session)
        began = time.perf_counter()
        wait_for(sweep)
        assert count_passed(sweep) == 30
        return round(time.perf_counter() - began, 2)


def streams() -> Iterator[Figure]:
    """Fifty clients follow one sweep to its end; whose stream is not, byte for byte, what the outbox holds."""
    with installation(MODELS, workers=1, event_streams=STREAMS + 1) as made:
        api = Api(made, free_port())
        start_workers(made, 1)
        sweep = start_work("quick-followed", 20)
        told = [bytearray() for _ in range(STREAMS)]
        before = cpu_s([api.process.pid])
        followers = [threading.Thread(target=_follow, args=(api, sweep, stream)) for stream in told]
        for follower in followers:
            follower.start()
        for follower in followers:
            follower.join(END_S)
        stored = stored_events(sweep)
        wrong = sum(events_in(stream) != stored for stream in told)
        assert stored, "no event was stored"
        yield Figure("event streams, clients that were not told exactly what is stored", wrong, "", 0)
        cost = 1000 * (cpu_s([api.process.pid]) - before) / (len(stored) * STREAMS)
        yield Figure("event streams, server time per event and client", round(cost, 3), "ms", 3.0)


def _follow(api: Api, sweep: int, told: bytearray) -> None:
    headers = {"Authorization": api.client.headers["Authorization"]}
    with httpx.stream("GET", f"{api.url}/api/v1/sweeps/{sweep}/events", headers=headers, timeout=END_S) as answer:
        for part in answer.iter_raw():
            told += part


def stored_events(sweep: int) -> list[bytes]:
    """What the outbox holds of a sweep, as the protocol writes it, numbered from 1 without a gap."""
    with reading() as session:
        query = select(OutboxEvent).where(OutboxEvent.stream == stream_of("sweep", sweep))
        rows = session.scalars(query.order_by(OutboxEvent.number)).all()
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    return [encode(row).rstrip() for row in rows]


def events_in(told: bytearray) -> list[bytes]:
    """The events of a stream, without its heartbeats and the time after which to come back."""
    return [part for part in bytes(told).split(b"\n\n") if part.startswith(b"id: ")]


def identical_posts() -> Iterator[Figure]:
    """A thousand identical requests, all begun before any of them is whole, without a key: one request is made."""
    with installation(MODELS) as made:
        api = Api(made, free_port())
        began = time.perf_counter()
        answers = asyncio.run(_post_at_once(api, {"model": "owner005/embedding-00005"}))
        seconds = time.perf_counter() - began
        with reading() as session:
            rows = session.scalar(select(func.count()).select_from(RequestRow))
        yield Figure("identical POSTs, requests stored", rows, "", 1)
        yield Figure("identical POSTs, requests answered with", len({found for _, found in answers}), "", 1)
        yield Figure("identical POSTs, answers other than 202", sum(code != 202 for code, _ in answers), "", 0)
        yield Figure("identical POSTs, seconds for all", round(seconds, 2), "s", 60.0)


async def _post_at_once(api: Api, body: dict[str, Any]) -> list[tuple[int, str]]:
    """Status and request of each answer. Every POST has sent its head before the first sends its body."""
    together = asyncio.Barrier(POSTS)
    content = json.dumps(body).encode()
    headers = {"Authorization": api.client.headers["Authorization"], "Content-Type": "application/json"}
    headers |= {"Content-Length": str(len(content))}

    async def once_all_wait() -> AsyncIterator[bytes]:
        await asyncio.wait_for(together.wait(), END_S)
        yield content

    async def post(client: httpx.AsyncClient) -> tuple[int, str]:
        answer = await client.post("/api/v1/requests", content=once_all_wait())
        return answer.status_code, answer.json().get("id", answer.text)

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=END_S, limits=limits) as client:
        return await asyncio.gather(*(post(client) for _ in range(POSTS)))


def memory() -> Iterator[Figure]:
    """Growth of API, worker and dispatcher over ten minutes of requests and runs, after the first minute."""
    with installation(MODELS, workers=1) as made:
        api = Api(made, free_port())
        processes = [api.process, *start_workers(made, 1)]
        began, round_, sizes = time.monotonic(), 0, list[float]()
        while time.monotonic() - began < MEMORY_S:
            round_ += 1
            sweep = start_work(f"quick-round{round_}", 3)
            for path in PAGES.values():
                api.get(path.removesuffix("&cursor={cursor}"))
            wait_for(sweep)
            if time.monotonic() - began > MEMORY_SETTLE_S:
                sizes.append(sum(psutil.Process(p).memory_info().rss for p in own_pids(processes)) / 2**20)
            time.sleep(1)
        tenth = max(1, len(sizes) // 10)
        growth = statistics.median(sizes[-tenth:]) / statistics.median(sizes[:tenth])
        yield Figure("memory after ten minutes over after one", round(growth, 4), "x", 1.03, tuple(sizes[::20]))


GROUPS: dict[str, Callable[[], Any]] = {
    "requests": requests_cost,
    "overhead": overhead,
    "throughput": throughput,
    "streams": streams,
    "posts": identical_posts,
    "memory": memory,
}


if __name__ == "__main__":
    sys.exit(main(GROUPS, __doc__))
