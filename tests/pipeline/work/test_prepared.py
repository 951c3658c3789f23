"""Children forked from a prepared process keep the promises of started ones; the process outlives them, not us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.errors import EnvironmentProblem
from pipeline.work.prepared import ForkServer
from pipeline.work.process import ChildResult

from ..conftest import wait_until
from .test_process import gone

MODULE = "tests.pipeline.work.preparing"
ROOT = Path(__file__).parents[3]
ENV = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with ForkServer(MODULE, ENV) as made:
        yield made


def run(server: ForkServer, *arguments: str, cwd: Path = ROOT, **changes: Any) -> ChildResult:
    how = {"timeout_s": 60.0, "memory_mb": 600, "env": {}, "cwd": cwd, **changes}
    return server.run(arguments, **how)


def told(ended: ChildResult) -> dict[str, Any]:
    assert ended.ok, ended
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_child_finds_what_was_prepared_and_a_process_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    env = {"TMPDIR": str(tmp_path), "ONLY": "mine"}
    first, second = told(run(server, "tell", env=env, cwd=tmp_path)), told(run(server, "tell"))
    assert len(first["prepared_in"]) == 1
    assert first["prepared_in"] == second["prepared_in"]
    assert len({first["pid"], second["pid"], *first["prepared_in"], os.getpid()}) == 4
    assert (first["env"], first["cwd"], first["temp"]) == (env, str(tmp_path), str(tmp_path))
    assert second["env"] == {}
    assert first["stdin"] == ""


def test_no_two_children_draw_the_same_numbers(server: ForkServer) -> None:
    first, second = told(run(server, "tell")), told(run(server, "tell"))
    assert not set(first["drawn"]) & set(second["drawn"])


def test_a_child_holds_no_file_of_the_server(server: ForkServer) -> None:
    listing = 1  # the folder that is being listed
    assert len(told(run(server, "tell"))["files"]) == 3 + listing


@pytest.mark.parametrize(
    ("arguments", "problem", "said"),
    [
        (("end", "3"), "crashed", "status 3"),
        (("end", "SIGSEGV"), "crashed", "SIGSEGV"),
        (("end", "SIGKILL"), "crashed", "SIGKILL"),
        (("raise",), "crashed", "no such thing"),
        (("eat",), "memory_limit", "its limit is 600 MB"),
    ],
)
def test_what_ends_a_child_is_told_and_the_next_one_runs(
    server: ForkServer, arguments: tuple[str, ...], problem: str, said: str
) -> None:
    ended = run(server, *arguments)
    assert ended.problem == problem
    assert said in ended.reason
    assert run(server, "end", "0").ok


def test_a_hang_is_a_timeout(server: ForkServer) -> None:
    run(server, "end", "0")
    assert run(server, "sleep", timeout_s=0.5).problem == "timeout"
    assert run(server, "end", "0").ok


def test_nothing_that_a_child_started_outlives_it(server: ForkServer) -> None:
    assert gone(int(run(server, "leave_behind").stdout))


def test_a_tick_that_raises_ends_the_child(server: ForkServer) -> None:
    def tick() -> None:
        raise InterruptedError("the worker stops")

    prepared = told(run(server, "tell"))["prepared_in"]
    with pytest.raises(InterruptedError):
        run(server, "sleep", tick=tick, tick_s=0.2)
    again = told(run(server, "tell"))
    assert again["prepared_in"] == prepared


def test_a_server_that_was_killed_costs_its_child_and_is_started_again(server: ForkServer) -> None:
    [prepared] = told(run(server, "tell"))["prepared_in"]
    ends = threading.Timer(0.5, lambda: os.kill(prepared, signal.SIGKILL))
    ends.start()
    assert "SIGKILL" in run(server, "sleep").reason
    ends.join()
    [other] = told(run(server, "tell"))["prepared_in"]
    assert other != prepared


def test_a_server_that_was_killed_between_two_children_is_started_again(server: ForkServer) -> None:
    [prepared] = told(run(server, "tell"))["prepared_in"]
    os.kill(prepared, signal.SIGKILL)
    wait_until(lambda: gone(prepared))
    answers = [run(server, "tell") for _ in range(2)]  # the first may find the door still open
    assert told(answers[1])["prepared_in"] != [prepared]


def test_a_module_that_cannot_prepare_is_our_fault() -> None:
    with ForkServer(MODULE, {**ENV, "FAIL_TO_PREPARE": "1"}) as server, pytest.raises(EnvironmentProblem, match=MODULE):
        run(server, "tell")


def test_it_goes_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "import sys, time, threading; from pathlib import Path\n"
        "from pipeline.work.prepared import ForkServer\n"
        f"server = ForkServer({MODULE!r}, {ENV!r})\n"
        "how = dict(timeout_s=60, memory_mb=600, env={}, cwd=Path('/'))\n"
        "sys.stdout.write(server.run(['tell'], **how).stdout + chr(10)); sys.stdout.flush()\n"
        "server.run(['sleep'], **how)\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", code], env=ENV, stdout=subprocess.PIPE)
    assert ours.stdout is not None
    [prepared] = json.loads(ours.stdout.readline())["prepared_in"]
    wait_until(lambda: bool(psutil.Process(prepared).children()))
    [child] = psutil.Process(prepared).children()
    ours.kill()
    ours.wait()
    ours.stdout.close()
    wait_until(lambda: gone(prepared) and gone(child.pid))
