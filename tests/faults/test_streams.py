"""Two API processes tell the same stream: whoever is killed, the reader goes on with the other and misses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest

from benchmarks.installation import Installation, Process
from pipeline.database.accounts import ensure_principal, issue
from pipeline.database.events import emit
from pipeline.database.models import PrincipalKind, Role, SessionKind
from pipeline.database.unit_of_work import unit_of_work
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep
from pipeline.work.control import cancel_everything

from .work import holds

pytestmark = [pytest.mark.postgres, pytest.mark.redis]
WRITERS, EACH = 3, 40
Ids = Iterator[int]


class Reader:
    """Reads one stream as a browser does: comes back with `Last-Event-ID`, to whichever process answers."""

    def __init__(self, urls: list[str], path: str, token: str) -> None:
        self._urls, self._path, self._headers = urls, path, {"Authorization": f"Bearer {token}"}
        self.seen: list[int] = []
        self.connections: list[int] = []

    def read_to_the_end(self) -> None:
        """Read until a process says that there is nothing more."""
        turn = 0
        while True:
            turn += 1
            with suppress(httpx.HTTPError):
                if self._read_once(turn % len(self._urls)) == 204:
                    return

    def _read_once(self, which: int) -> int:
        seen = {"Last-Event-ID": str(self.seen[-1])} if self.seen else {}
        url = self._urls[which] + self._path
        with httpx.stream("GET", url, headers={**self._headers, **seen}, timeout=20) as answer:
            assert answer.status_code in (200, 204), answer.read()
            self.connections.append(which)
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    self.seen.append(int(line[4:]))
            return answer.status_code


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.timeout(240)
def test_no_event_is_lost_or_repeated_when_a_process_is_killed(
    service: Installation, port: Callable[[], int], wait: Callable[..., None], entry: Callable
) -> None:
    ports = [port(), port()]
    urls = [f"http://127.0.0.1:{number}" for number in ports]
    apis = [service.start("api", port=str(number)) for number in ports]
    for url in urls:
        wait(lambda url=url: is_up(url))
    with unit_of_work() as session:
        sweep = start_sweep(session, "test", [entry("a/one")], SweepOptions("profile-2026-08")).id
        viewer = ensure_principal(session, "viewer", PrincipalKind.SERVICE, [Role.VIEWER])
        token = issue(session, viewer, SessionKind.BEARER).token
    reader = Reader(urls, f"/api/v1/sweeps/{sweep}/events", token)
    reading = threading.Thread(target=reader.read_to_the_end)
    reading.start()
    wait(lambda: reader.seen == [1])
    killed = write_while(sweep, lambda: kill_and_restart(service, apis, ports, reader, wait))
    with unit_of_work() as session:
        cancel_everything(session)
    reading.join(60)
    assert not reading.is_alive()
    assert killed
    assert set(reader.connections) == {0, 1}
    written = WRITERS * EACH + 1
    assert reader.seen[:written] == list(range(1, written + 1)), "each once, in order"
    assert reader.seen == list(range(1, len(reader.seen) + 1))
    holds()


def write_while(sweep: int, work: Callable[[], bool]) -> bool:
    """Emit from several writers at once while `work` goes on; what it returned."""
    half = threading.Event()

    def write(name: int) -> None:
        for n in range(EACH):
            if n == EACH // 2:
                half.wait(60)
            with unit_of_work() as session:
                emit(session, "step", "sweep", sweep, writer=name, n=n)

    writers = [threading.Thread(target=write, args=(name,)) for name in range(WRITERS)]
    for thread in writers:
        thread.start()
    done = work()
    half.set()
    for thread in writers:
        thread.join()
    return done


def kill_and_restart(
    service: Installation, apis: list[Process], ports: list[int], reader: Reader, wait: Callable[..., None]
) -> bool:
    """Kill the process that is being read from in the middle of the stream, and start it again."""
    wait(lambda: len(reader.seen) > 2)
    which = reader.connections[-1]
    before = len(reader.connections)
    apis[which].kill()
    wait(lambda: len(reader.connections) > before)
    apis[which] = service.start("api", port=str(ports[which]))
    return True
