"""Real Celery workers: messages are hints, rows the truth; nothing is lost and nothing outlives a killed parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.settings import Settings, get_settings
from pipeline.sweeps import repository as sweeps
from pipeline.sweeps.service import sweep_report
from pipeline.work.broker import broker_folder, celery_settings, is_embedded
from pipeline.work.celery_app import app
from pipeline.work.commands import WORKERS
from pipeline.work.installation import give_back_everything, prepare_installation, take_charge
from pipeline.work.models import Run
from pipeline.work.process import kill_tree, reaper_command
from pipeline.work.supervisor import Supervisor

Start = Callable[..., int]
Wait = Callable[..., None]


@pytest.fixture
def installation(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A prepared installation with two worker slots, on SQLite and the embedded broker."""
    monkeypatch.setenv("SPYRE_FACTORY_WORKERS", "2")
    get_settings.cache_clear()
    prepare_installation(get_settings())
    monkeypatch.setitem(
        app.conf, "broker_transport_options", celery_settings(get_settings())["broker_transport_options"]
    )
    return get_settings()


@pytest.fixture
def running(installation: Settings) -> Iterator[Supervisor]:
    with Supervisor(installation, WORKERS) as supervisor:
        yield supervisor


def unfinished(sweep_id: int) -> int:
    with reading() as session:
        return sweeps.count_unfinished_runs(session, sweep_id)


def tree(supervisor: Supervisor) -> list[psutil.Process]:
    roots = [psutil.Process(service.process.pid) for service in supervisor.services]
    return [*roots, *(child for root in roots for child in root.children(recursive=True))]


def described_process(process: psutil.Process) -> tuple[str, str] | None:
    """The command and the mapped files of a process; None for one that has ended (the pool replaces its processes)."""
    try:
        return " ".join(process.cmdline()), Path(f"/proc/{process.pid}/maps").read_text()
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(map(is_alive, processes))


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_sweep_is_done_by_workers_that_never_import_torch(running: Supervisor, sweep_of: Start, wait: Wait) -> None:
    sweep_id = sweep_of("a/one", "a/stock-two", "a/crash-three")
    wait(lambda: unfinished(sweep_id) == 0)
    with reading() as session:
        report = sweep_report(session, sweep_id)
        deliveries = {run.deliveries for run in session.query(Run)}
    outcomes = {row["model"]: row["outcome"] for row in report["models"]}
    assert outcomes == {"a/one": "failed", "a/stock-two": "passed", "a/crash-three": "failed"}
    assert deliveries == {1}
    workers = [described for described in map(described_process, tree(running)) if described]
    assert sum("celery" in command for command, _ in workers) >= 3
    for command, maps in workers:
        assert "libtorch" not in maps, command


def test_stopping_ends_everything_within_ten_seconds(
    installation: Settings, sweep_of: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_id = sweep_of("a/hang-one", "a/hang-two")
    with Supervisor(installation, WORKERS) as supervisor:
        wait(lambda: captures_running(sweep_id) == 2)
        everything = tree(supervisor)
        began = time.monotonic()
    took = time.monotonic() - began
    assert all_gone(everything)
    assert took < 10


def captures_running(sweep_id: int) -> int:
    with reading() as session:
        runs = [run for run, _ in sweeps.sweep_runs(session, sweep_id)]
        return sum(run.stage == "capture" and run.state == "claimed" for run in runs)


def test_a_killed_worker_costs_nothing_but_time(
    running: Supervisor, sweep_of: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_id = sweep_of("a/stock-one")
    wait(lambda: unfinished(sweep_id) == 0)
    worker = next(service for service in running.services if service.name == "worker")
    before = psutil.Process(worker.process.pid).children(recursive=True)
    worker.process.kill()
    wait(lambda: worker.process.poll() is not None and all_gone(before), 10)
    second = sweep_of("a/stock-two", "a/stock-three")
    running.keep_alive()
    wait(lambda: unfinished(second) == 0)


def test_messages_lost_by_the_broker_are_sent_again(
    installation: Settings, sweep_of: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.work import dispatcher, repository

    sweep_id = sweep_of("a/stock-one", "a/stock-two")
    assert dispatcher.dispatch(installation) == 2
    assert len(list((broker_folder(installation) / "messages").iterdir())) == 2
    for message in (broker_folder(installation) / "messages").iterdir():
        message.unlink()
    assert dispatcher.dispatch(installation) == 0, "both are thought to be under way"
    monkeypatch.setattr(dispatcher, "RESEND_AFTER_LEASES", -1.0)
    assert dispatcher.recover(installation) == 2
    assert dispatcher.dispatch(installation) == 2
    with unit_of_work() as session:
        assert repository.count_outstanding(session) == 2
    with Supervisor(installation, ("worker",)):
        wait(lambda: inspected(sweep_id) == 2)


def inspected(sweep_id: int) -> int:
    with reading() as session:
        return sum(run.stage == "inspect" and run.state == "done" for run, _ in sweeps.sweep_runs(session, sweep_id))


def test_the_broker_holds_at_most_two_messages_per_slot(installation: Settings, sweep_of: Start) -> None:
    from pipeline.work import dispatcher

    sweep_of(*[f"a/stock-{i}" for i in range(9)])
    assert dispatcher.dispatch(installation) == 4
    assert dispatcher.dispatch(installation) == 0
    assert len(list((broker_folder(installation) / "messages").glob("*.msg"))) == 4


def test_a_message_delivered_twice_works_once(installation: Settings, sweep_of: Start, drain: Callable) -> None:
    from pipeline.work.worker import work_on

    sweep_of("a/stock-one")
    first = drain()
    assert [work_on(run_id) for run_id in first] == [False] * len(first)
    calls = (installation.data_dir / "calls.log").read_text().splitlines()
    assert len(calls) == len(first)


def test_a_paused_queue_and_a_full_disk_claim_nothing(
    installation: Settings, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.database.facts import QUEUE_PAUSED, set_fact
    from pipeline.work import dispatcher
    from pipeline.work.worker import work_on

    sweep_of("a/stock-one")
    with unit_of_work() as session:
        set_fact(session, QUEUE_PAUSED, True)
    assert (dispatcher.dispatch(installation), work_on(1)) == (0, False)
    with unit_of_work() as session:
        set_fact(session, QUEUE_PAUSED, False)
    monkeypatch.setenv("SPYRE_FACTORY_FREE_DISK_FLOOR_MB", str(10**9))
    get_settings.cache_clear()
    assert (dispatcher.dispatch(get_settings()), work_on(1)) == (0, False)


def test_a_broken_stage_is_our_fault_and_stored_as_such(
    installation: Settings, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.work.worker import work_on

    sweep_of("a/stock-one")
    monkeypatch.setattr("pipeline.work.worker.job_of", lambda *_: 1 / 0)
    assert work_on(1)
    with reading() as session:
        run = session.get_one(Run, 1)
        assert (run.state, run.attempts) == ("queued", 1), "tried again later"
        assert "ZeroDivisionError" in run.reason


def test_only_one_process_is_in_charge_of_a_data_directory(installation: Settings) -> None:
    first = take_charge(installation)
    assert first is not None
    assert take_charge(installation) is None
    first.close()
    second = take_charge(installation)
    assert second is not None
    second.close()


def test_who_takes_charge_gives_back_what_killed_workers_held(installation: Settings, sweep_of: Start) -> None:
    from pipeline.work import repository

    sweep_of("a/stock-one", "a/stock-two")
    with unit_of_work() as session:
        repository.claim_run(session, 1, "dead:1", 3600)
        repository.take_to_send(session, 1)
    assert is_embedded(installation)
    give_back_everything(installation)
    with reading() as session:
        assert {run.state for run in session.query(Run)} == {"queued"}
        assert {run.sent_at for run in session.query(Run)} == {None}


@pytest.mark.redis
def test_a_sweep_is_done_over_redis_even_if_redis_forgets(
    redis_url: str, installation: Settings, sweep_of: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    monkeypatch.setenv("SPYRE_FACTORY_BROKER_URL", redis_url)
    get_settings.cache_clear()
    sweep_id = sweep_of("a/stock-one", "a/stock-two", "a/three")
    with Supervisor(get_settings(), WORKERS):
        wait(lambda: inspected(sweep_id) >= 1)
        client = redis.Redis(unix_socket_path=redis_url.removeprefix("redis+socket://"))
        client.flushall()
        client.close()
        wait(lambda: unfinished(sweep_id) == 0)


def test_sigkill_of_a_sweep_leaves_no_process_and_the_next_one_goes_on(
    settings: Settings, catalogue_file: Callable[..., Path], wait: Wait
) -> None:
    path = catalogue_file("a/hang-one", "a/stock-two")
    code = "import sys, pipeline.cli.sweep as s, typer; app = typer.Typer(); s.register(app); app(sys.argv[1:])"
    env = {**os.environ, "SPYRE_FACTORY_WORKERS": "2"}
    command = [sys.executable, "-c", code, "--catalog", str(path), "--json"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env)
    try:
        wait(lambda: (settings.data_dir / "calls.log").exists() and "capture a/hang-one" in calls(settings))
        family = psutil.Process(first.pid).children(recursive=True)
        assert len(family) >= 6
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    wait(lambda: all_gone(family), 10)
    with reading() as session:
        held = [run.id for run in session.query(Run).filter_by(state="claimed")]
        assert held, "nothing is lost: what was being done is still to be done"
    lock = take_charge(settings)
    assert lock is not None, "the lock died with its holder"
    lock.close()
    with reading() as session:
        assert {session.get_one(Run, run_id).state for run_id in held} == {"queued"}


def calls(settings: Settings) -> str:
    return (settings.data_dir / "calls.log").read_text()


def held(state: str = "claimed") -> list[Run]:
    with reading() as session:
        return session.query(Run).filter_by(state=state).all()


def test_a_worker_that_is_told_to_stop_gives_back_what_it_holds(
    installation: Settings, sweep_of: Start, wait: Wait
) -> None:
    sweep_id = sweep_of("a/hang-one", "a/hang-two")
    with Supervisor(installation, WORKERS) as supervisor:
        wait(lambda: captures_running(sweep_id) == 2)
        worker = next(service for service in supervisor.services if service.name == "worker")
        worker.process.terminate()
        wait(lambda: not held(), 10)
        wait(lambda: worker.process.poll() is not None, 10)
        assert "given_back" in (installation.data_dir / "logs" / "worker.log").read_text()
    with reading() as session:
        captures = [run for run in session.query(Run) if run.stage == "capture"]
        assert [(run.state, run.deliveries) for run in captures] == [("queued", 0)] * 2


def test_cancelling_ends_the_child_of_a_run(
    installation: Settings, sweep_of: Start, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from pipeline.work import control, worker

    sweep_id = sweep_of("a/hang-one")
    monkeypatch.setenv("SPYRE_FACTORY_LEASE_SECONDS", "2")
    get_settings.cache_clear()
    assert worker.work_on(1), "inspect"
    at_work = threading.Thread(target=worker.work_on, args=(2,))
    at_work.start()
    wait(lambda: captures_running(sweep_id) == 1 and "capture a/hang-one" in calls(installation))
    with unit_of_work() as session:
        assert control.cancel_sweep(session, sweeps.get_sweep(session, sweep_id)).ended == [2]
    at_work.join(20)
    assert not at_work.is_alive()
    with reading() as session:
        run = session.get_one(Run, 2)
        assert (run.state, run.outcome) == ("cancelled", None)
        assert session.query(Run).count() == 2, "nothing follows"


def test_a_database_that_is_away_costs_no_child_while_the_lease_holds(
    installation: Settings, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.database.errors import DatabaseUnavailable
    from pipeline.work import repository, worker

    def away(*_: object) -> None:
        raise DatabaseUnavailable("away")

    sweep_of("a/stock-one")
    with unit_of_work() as session:
        lease = repository.claim_next(session, "w", 60)
    assert lease is not None
    monkeypatch.setattr(repository, "renew", away)
    worker.Heartbeat(lease, 60.0)()
    beat = worker.Heartbeat(lease, 0.05)
    time.sleep(0.03)
    beat()
    time.sleep(0.05)
    with pytest.raises(DatabaseUnavailable):
        beat()


@pytest.mark.parametrize("broker", ["embedded", pytest.param("redis", marks=pytest.mark.redis)])
def test_stock_tools_see_the_workers(
    broker: str, installation: Settings, wait: Wait, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if broker == "redis":
        monkeypatch.setenv("SPYRE_FACTORY_BROKER_URL", request.getfixturevalue("redis_url"))
        get_settings.cache_clear()
    tool = [sys.executable, "-m", "celery", "-A", "pipeline.work.celery_app", "inspect", "--timeout", "5", "ping"]
    with Supervisor(get_settings(), ("worker",)):
        wait(lambda: "pong" in subprocess.run(tool, capture_output=True, text=True, timeout=60).stdout)


def test_pool_processes_are_replaced_and_the_new_ones_work(installation: Settings, sweep_of: Start, wait: Wait) -> None:
    assert app.conf.worker_max_tasks_per_child == 200
    assert app.conf.worker_max_memory_per_child == 1_000_000
    sweep_id = sweep_of(*[f"a/stock-{n}" for n in range(3)])
    argv = [sys.executable, "-m", "celery", "-A", "pipeline.work.celery_app", "worker", "--concurrency", "1"]
    command = reaper_command([*argv, "--max-tasks-per-child", "2", "--loglevel", "ERROR"])
    worker = subprocess.Popen(command, start_new_session=True)
    try:
        with Supervisor(installation, ("dispatcher",)):
            wait(lambda: unfinished(sweep_id) == 0)
    finally:
        kill_tree(worker)
    owners = {line.split()[2] for line in calls(installation).splitlines()}
    assert len(owners) == 9, "every stage in a child of its own"
