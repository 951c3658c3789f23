"""`up` runs in the foreground, ends everything, leaves nothing when killed, and says what is wrong in a sentence."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.database.accounts import NotLoggedIn, redeem_login
from pipeline.database.errors import DataDirUnusable
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.settings import Settings
from pipeline.sweeps.repository import count_unfinished_runs
from pipeline.work.installation import prepare_data_dir

Wait = Callable[..., None]
Up = Callable[..., subprocess.Popen[str]]

PROGRAM = """
import sys, typer
from pipeline.cli import up
from pipeline.work import commands

def answering(settings):
    return ["python", "-m", "http.server", "--bind", settings.host, str(settings.port)]

commands.COMMANDS["api"] = commands.Command("api", "api", answering)
app = typer.Typer()
up.register(app)
app(sys.argv[1:])
"""
"""`up` with a plain file server in the API's place: these tests are about processes."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def up(settings: Settings, tmp_path: Path) -> Iterator[Up]:
    """Starts `up`; whatever still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str, **environment: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", PROGRAM, *options]
        process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=tmp_path, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def dashboard_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Dashboard"):
            return line
    raise AssertionError(process.stderr.read() if process.stderr else "no output")


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(is_alive(process) for process in processes)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_serves_until_told_to_stop_and_ends_everything(number: signal.Signals, up: Up) -> None:
    process = up("--port", str(free_port()))
    dashboard_line(process)
    children = family(process)
    assert len(children) >= 6, "three services, each under its reaper"
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(20) == 0
    assert time.monotonic() - began < 10
    assert all_gone(children)


def test_the_login_link_works_once(up: Up) -> None:
    token = dashboard_line(up("--port", str(free_port()))).split("t=")[1].strip()
    with unit_of_work() as session:
        assert redeem_login(session, token).session.principal.name == "local"
    with pytest.raises(NotLoggedIn), unit_of_work() as session:
        redeem_login(session, token)


def test_a_killed_up_leaves_no_process_and_the_second_goes_on(
    up: Up, settings: Settings, sweep_of: Callable[..., int], wait: Wait
) -> None:
    first = up("--port", str(free_port()), "--workers", "2")
    dashboard_line(first)
    sweep_id = sweep_of("a/slow-stock-one", "a/slow-stock-two")
    log = settings.data_dir / "calls.log"
    wait(lambda: log.exists() and "capture" in log.read_text())
    children = family(first)
    first.kill()
    wait(lambda: all_gone(children), 10)
    with reading() as session:
        assert count_unfinished_runs(session, sweep_id) > 0
    second = up("--port", str(free_port()), "--workers", "2")
    dashboard_line(second)
    wait(lambda: unfinished(sweep_id) == 0)


def unfinished(sweep_id: int) -> int:
    with reading() as session:
        return count_unfinished_runs(session, sweep_id)


def test_a_service_that_falls_is_started_again(up: Up, wait: Wait) -> None:
    process = up("--port", str(free_port()))
    dashboard_line(process)
    server = next(child for child in family(process) if child.cmdline()[1:3] == ["-m", "http.server"])
    server.kill()
    wait(lambda: serves_again(process, server.pid))


def serves_again(process: subprocess.Popen[str], old: int) -> bool:
    try:
        return any(c.cmdline()[1:3] == ["-m", "http.server"] and c.pid != old for c in family(process))
    except psutil.NoSuchProcess:
        return False


def sentence_of(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    lines = errors.strip().splitlines()
    assert len(lines) == 1, errors
    return lines[0]


def test_a_busy_port_is_one_sentence(up: Up) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        assert "--port" in sentence_of(up("--port", str(holder.getsockname()[1])))


def test_a_data_directory_that_cannot_be_written_is_one_sentence(up: Up) -> None:
    process = up("--port", str(free_port()), SPYRE_FACTORY_DATA_DIR="/proc/nothing")
    assert "SPYRE_FACTORY_DATA_DIR" in sentence_of(process)


def test_a_full_disk_is_one_sentence_and_leaves_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataDirUnusable, match="No space left"):
        prepare_data_dir(settings)
    assert list(settings.data_dir.iterdir()) == []


def test_a_second_up_on_the_same_data_is_refused_in_one_sentence(up: Up) -> None:
    dashboard_line(up("--port", str(free_port())))
    assert "in charge" in sentence_of(up("--port", str(free_port())))
