"""Seeded schedules of faults: what strikes, when and whom is drawn from a seed, and what must hold is asked after each.

    python -m tests.faults.schedules --budget MINUTES --from-seed N

Runs schedule after schedule on one installation (PostgreSQL, Redis, two workers, a dispatcher) until the budget is
used; the first that breaks an invariant ends it with its seed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.installation import Installation, Process
from benchmarks.servers import Postgres, Redis
from pipeline.settings import get_settings
from pipeline.work.installation import prepare_installation

from ..pipeline.conftest import FAKE_CHILD
from .work import Work

LATEST_S = 2.0
MODELS = 3


class Schedule(NamedTuple):
    """What a seed means."""

    seed: int
    fault: str
    moment_s: float
    worker: int

    @classmethod
    def of(cls, seed: int) -> Schedule:
        """The schedule of a seed, the same everywhere."""
        draw = random.Random(seed)
        return cls(seed, draw.choice(sorted(FAULTS)), round(draw.uniform(0.1, LATEST_S), 2), draw.randrange(2))


class Runner:
    """One installation under fire: what has ended is started again at any time, as `up` and the compose file do.

    Celery's worker ends itself some seconds after Redis has reset its connection, by an error in kombu's transport.
    """

    def __init__(self, made: Installation) -> None:
        self.made = made
        self.workers = [made.start("worker", workers="1") for _ in range(2)]
        self.dispatcher = made.start("dispatcher")

    def run(self, schedule: Schedule) -> None:
        """Strike once while a sweep goes on. Raises AssertionError, with the seed, if an invariant does not hold."""
        names = ("slow", "", "stock", "stock-slow", "remote", "second")
        draw = random.Random(schedule.seed)
        chosen = [f"s{schedule.seed}/{draw.choice(names)}-{n}" for n in range(MODELS)]
        work = Work(*chosen, f"s{schedule.seed}/stock-last")
        time.sleep(schedule.moment_s)
        FAULTS[schedule.fault](self, schedule.worker)
        try:
            work.ends_well(supervise=self.keep_alive)
        except AssertionError as error:
            raise AssertionError(f"{schedule}: {error}") from error

    def keep_alive(self) -> None:
        """Start again what has ended."""
        for number, worker in enumerate(self.workers):
            if worker.has_ended():
                self.workers[number] = self.made.start("worker", workers="1")
        if self.dispatcher.has_ended():
            self.dispatcher = self.made.start("dispatcher")


def kill_pool(runner: Runner, number: int) -> None:
    """SIGKILL to the pool processes of a worker; Celery makes new ones."""
    for process in below(runner.workers[number]):
        with suppressed():
            if "celery" in " ".join(process.cmdline()):
                process.kill()


def kill_children(runner: Runner, number: int) -> None:
    """SIGKILL to whatever stage a worker runs; such a stage counts as crashed, so the last model is spared."""
    for process in below(runner.workers[number]):
        with suppressed():
            line = process.cmdline()
            if str(FAKE_CHILD) in line and "stock" not in spec_of(line):
                process.kill()


def spec_of(line: list[str]) -> str:
    """The SPEC of a stage's child, empty if it is gone."""
    try:
        return Path(line[-2]).read_text()
    except OSError:
        return "stock"


def below(process: Process) -> list[psutil.Process]:
    """Every process under one of ours."""
    try:
        return psutil.Process(process.pid).children(recursive=True) if process.pid else []
    except psutil.NoSuchProcess:
        return []


def restart_redis(runner: Runner, _number: int) -> None:
    """Redis dies with everything in it and comes back."""
    runner.made.redis.kill()
    runner.made.redis.start()


def restart_postgres(runner: Runner, _number: int) -> None:
    """PostgreSQL dies as in a power cut and comes back."""
    runner.made.postgres.kill()
    runner.made.postgres.start()


def freeze(runner: Runner, number: int) -> None:
    """A worker stands still for longer than its lease, then goes on as if nothing had been."""
    frozen = [psutil.Process(runner.workers[number].pid), *below(runner.workers[number])]
    for process in frozen:
        with suppressed():
            process.suspend()
    time.sleep(get_settings().lease_seconds + 1)
    for process in frozen:
        with suppressed():
            process.resume()


@contextmanager
def suppressed() -> Iterator[None]:
    """A process that is gone needs neither stopping nor going on."""
    try:
        yield
    except psutil.NoSuchProcess:
        return


FAULTS: dict[str, Callable[[Runner, int], None]] = {
    "kill_worker": lambda runner, number: runner.workers[number].kill(),
    "stop_worker": lambda runner, number: runner.workers[number].stop(),
    "kill_dispatcher": lambda runner, _: runner.dispatcher.kill(),
    "flush_redis": lambda runner, _: runner.made.redis.flush(),
    "kill_pool": kill_pool,
    "kill_children": kill_children,
    "restart_redis": restart_redis,
    "restart_postgres": restart_postgres,
    "freeze_worker": freeze,
}


@contextmanager
def installation() -> Iterator[Installation]:
    """An installation outside pytest, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="sffs") as folder:
        postgres, redis = Postgres(), Redis()
        given = {"DATA_DIR": folder, "CHILD_MODULE": FAKE_CHILD, "FREE_DISK_FLOOR_MB": 1, "LEASE_SECONDS": 3}
        given |= {"DATABASE_URL": postgres.url, "BROKER_URL": redis.url, "TEST_MODE": "true"}
        os.environ.update({f"SPYRE_FACTORY_{name}": str(value) for name, value in given.items()})
        get_settings.cache_clear()
        made = Installation(get_settings(), postgres, redis)
        try:
            prepare_installation(get_settings())
            yield made
        finally:
            made.close()


def main() -> int:
    """Run schedules until the budget is used."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=float, default=5.0, help="minutes")
    parser.add_argument("--from-seed", type=int, default=0)
    options = parser.parse_args()
    until = time.monotonic() + options.budget * 60
    seed = options.from_seed
    with installation() as made:
        runner = Runner(made)
        while time.monotonic() < until:
            schedule = Schedule.of(seed)
            sys.stderr.write(f"{schedule}\n")
            runner.run(schedule)
            seed += 1
    sys.stdout.write(f"{seed - options.from_seed} schedules held, seeds {options.from_seed} to {seed - 1}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
