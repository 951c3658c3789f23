"""The worker's start tests the sandbox; without its answer, or with a failed check, no drafted code runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.sandbox import SandboxUnavailable, ask_before_running, run, run_in_sandbox, selftest
from agents.sandbox.selftest import Check
from pipeline.work import celery_app
from pipeline.work.sandbox_state import begin_test, read_state, sandbox_refusal, state_path, write_state


@pytest.fixture(autouse=True)
def no_permission_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(run, "_permissions", [])
    return


def answer(data_dir: Path, **state: object) -> None:
    state_path(data_dir).write_text(json.dumps(state))


def test_without_an_answer_nothing_may_run(tmp_path: Path) -> None:
    assert "gave no answer. Remedy:" in str(sandbox_refusal(tmp_path, wait_s=0))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"checks": 5}', '{"checks": 0, "failed": []}'])
def test_an_answer_that_is_none_is_a_refusal(tmp_path: Path, content: str) -> None:
    state_path(tmp_path).write_text(content)
    assert sandbox_refusal(tmp_path, wait_s=0) is not None


def test_a_failed_check_refuses_with_its_remedy(tmp_path: Path) -> None:
    answer(tmp_path, checks=1, failed=[{"name": "a sandbox", "detail": "no bwrap. Remedy: install bubblewrap"}])
    refusal = sandbox_refusal(tmp_path, wait_s=0)
    ask_before_running(lambda: refusal)
    with pytest.raises(SandboxUnavailable) as raised:
        run_in_sandbox("pass")
    assert raised.value.remedy == "install bubblewrap"


def test_a_passed_test_lets_drafted_code_run(tmp_path: Path) -> None:
    answer(tmp_path, checks=70, failed=[], memory_limit="x")
    assert sandbox_refusal(tmp_path, wait_s=0) is None


def test_every_failed_check_is_stored_with_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [Check("up", True, "1 s; memory limit in force: RLIMIT_AS"), Check("b", False, "y")]
    monkeypatch.setattr(selftest, "selftest", lambda hidden, with_torch: checks)
    write_state(tmp_path)
    state = read_state(tmp_path, 0)
    assert state == {"checks": 2, "failed": [{"name": "b", "detail": "y"}], "memory_limit": "RLIMIT_AS"}
    assert "(b: y)" in str(sandbox_refusal(tmp_path, wait_s=0))


@pytest.mark.sandbox
def test_the_test_that_a_worker_begins_leaves_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_DATA_DIR", str(tmp_path))
    answer(tmp_path, checks=1, failed=[])
    with begin_test(tmp_path) as process:
        assert process.wait(120) == 0
    state = read_state(tmp_path, 0)
    assert state is not None
    assert state["checks"] >= 40
    assert state["failed"] == []
    assert "watchdog" in state["memory_limit"]


def test_a_worker_begins_the_test_at_its_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[Path] = []
    monkeypatch.setenv("SPYRE_FACTORY_DATA_DIR", str(tmp_path))
    celery_app.get_settings.cache_clear()
    monkeypatch.setattr(celery_app, "begin_test", begun.append)
    monkeypatch.setattr(celery_app, "configure_logging", lambda: None)
    celery_app._before_worker()
    celery_app.get_settings.cache_clear()
    assert begun == [tmp_path]
