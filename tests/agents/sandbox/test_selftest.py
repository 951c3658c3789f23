"""The self-test holds here, and goes red when a wall is taken away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agents.sandbox import SandboxUnavailable, plan, run, selftest, view
from pipeline.cli import sandbox as cli

ALLOW_ALL = bytes.fromhex("0600000000 00ff7f".replace(" ", ""))
"""A filter of one instruction: return ALLOW."""


@pytest.mark.sandbox
def test_every_check_passes_here() -> None:
    checks = selftest.selftest()
    assert len(checks) >= 40
    assert [check for check in checks if not check.passed] == []
    assert len({check.name for check in checks}) == len(checks)


def _failed() -> set[str]:
    return {check.name for check in selftest.run_probes() if not check.passed}


@pytest.mark.sandbox
def test_without_the_filter_the_probes_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "filter_program", lambda: ALLOW_ALL)
    assert {"no internet socket", "no vsock socket", "call refused: memfd_create", "call refused: shmget"} <= _failed()


@pytest.mark.sandbox
def test_a_shared_home_fails_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = view.readonly_view
    monkeypatch.setattr(run, "readonly_view", lambda p, t: [*shown(p, t), view.Shown(Path("/var"), "/var")])
    assert _failed() == {"home, repository and data do not exist"}


@pytest.fixture
def writable_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """bubblewrap without the read-only root."""
    given = plan.bwrap_arguments

    def without(*args: object) -> list[str]:
        built = given(*args)  # type: ignore[arg-type]
        at = len(built) - built[::-1].index("--remount-ro") - 1
        return built[:at] + built[at + 2 :]

    monkeypatch.setattr(run, "bwrap_arguments", without)
    return


@pytest.mark.sandbox
@pytest.mark.usefixtures("writable_root")
def test_a_writable_root_fails_the_probes() -> None:
    assert {"root is read-only", "/dev is read-only"} <= _failed()


def test_without_a_sandbox_the_one_check_gives_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> str:
        raise SandboxUnavailable("gone", "install it")

    monkeypatch.setattr(plan, "bubblewrap", unavailable)
    (check,) = selftest.selftest()
    assert (check.passed, check.detail) == (False, "gone. Remedy: install it")


def _run_cli(monkeypatch: pytest.MonkeyPatch, checks: list[selftest.Check], *args: str) -> tuple[int, str]:
    monkeypatch.setattr(selftest, "selftest", lambda hidden: checks)
    app = typer.Typer()
    cli.register(app)
    result = CliRunner().invoke(app, ["sandbox", "selftest", *args])
    return result.exit_code, result.stdout


def test_the_command_prints_one_document_and_fails_with_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [selftest.Check("a", True, "x"), selftest.Check("b", False, "y")]
    status, text = _run_cli(monkeypatch, checks, "--json")
    assert status == 1
    assert json.loads(text) == {
        "checks": [{"name": "a", "passed": True, "detail": "x"}, {"name": "b", "passed": False, "detail": "y"}],
        "passed": 1,
        "failed": 1,
    }


def test_the_command_marks_failures_by_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [selftest.Check("a", True, "x"), selftest.Check("b", False, "y")]
    status, text = _run_cli(monkeypatch, checks)
    assert status == 1
    assert "FAIL  b" in text
    assert "1 of 2 checks passed" in text
    assert _run_cli(monkeypatch, checks[:1])[0] == 0
