"""Reproducers of the stage: each runs in a process of its own, and only what fails alike is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agents.types import Diagnosis, Failure, FailureKind
from pipeline.diagnosis.reproducer.make import NotReproduced, Reproducer
from pipeline.diagnosis.reproducer.signature import of_error
from pipeline.execution import scripts
from pipeline.execution.diagnose import keep_what_fails
from pipeline.execution.reproduce import attach
from pipeline.execution.scripts import ScriptRuns
from pipeline.work.process import ChildResult

FAILING = 'import sys\nsys.exit("wrong_values in aten.pow.Tensor_Scalar: relative error 0.3")\n'
LOUD = "raise RuntimeError('another error')\n"


class InThisProcess:
    """Stands for the child that stands by: its work without the fork that only a process of one thread may make."""

    def run(self, task: str, _timeout_s: float) -> ChildResult:
        ScriptRuns().work(task)
        return ChildResult(0, None, "", 0.1, 10.0, "", "")


def diagnosis(script: str | None) -> dict[str, Any]:
    signature = asdict(of_error("aten.pow.Tensor_Scalar", 0.3))
    return {"evidence": {"reproducer": {"script": script, "signature": signature, "reason": "none by itself"}}}


def test_a_script_is_an_artefact_if_it_failed_alike(tmp_path: Path) -> None:
    found = [diagnosis(t) for t in (FAILING, None, LOUD, "print('it runs')\n")]
    artefacts = keep_what_fails(found, tmp_path, InThisProcess())  # type: ignore[arg-type]
    assert [a["path"] for a in artefacts] == ["reproducer-0.py"]
    assert (tmp_path / "reproducer-0.py").read_text() == FAILING
    kept = [d["evidence"]["reproducer"] for d in found]
    assert kept[0]["said"] == "wrong_values in aten.pow.Tensor_Scalar: relative error 0.3"
    assert kept[1]["reason"] == "none by itself"
    assert [k["script"] for k in kept] == [FAILING, None, None, None]
    assert "RuntimeError: another error" in kept[2]["reason"]


def test_a_script_that_never_ends_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "TIMEOUT_S", 1.0)
    found = [diagnosis("import time\ntime.sleep(60)\n")]
    assert keep_what_fails(found, tmp_path, InThisProcess()) == []  # type: ignore[arg-type]
    assert found[0]["evidence"]["reproducer"]["script"] is None


def silent_after_loud() -> list[Diagnosis]:
    kinds = (FailureKind.UNSUPPORTED_DTYPE, FailureKind.UNSUPPORTED_OP, FailureKind.WRONG_VALUES)
    return [Diagnosis(Failure(kind, f"aten.op{n}.default", "", "", "")) for n, kind in enumerate(kinds)]


def test_wrong_values_have_their_script_first_and_none_is_begun_when_the_time_is_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, made = [0.0], []  # type: list[float], list[int]

    def maker(number: int) -> Any:
        def make() -> Reproducer:
            made.append(number)
            clock[0] += 10.0
            return Reproducer("exit(1)\n", of_error("aten.op2.default", 0.3))

        return make

    monkeypatch.setattr("pipeline.execution.reproduce.time.process_time", lambda: clock[0])
    for budget, expected in ((15.0, [2, 0]), (None, [2, 0, 1])):
        made.clear()
        found = silent_after_loud()
        attach(found, [maker(n) for n in range(3)], budget)
        assert made == expected
        assert all(d.evidence["reproducer"] for d in found)


def test_what_no_script_shows_at_one_place_is_tried_at_the_next() -> None:
    """Scores plus a mask: drawn values hide an error that the same sum without a mask shows."""
    found = [
        Diagnosis(Failure(FailureKind.WRONG_VALUES, "aten.add.Tensor", line, "", "", scalars=("length",)))
        for line in ("a.py:1", "a.py:2", "a.py:3")
    ]
    made: list[int] = []

    def maker(number: int) -> Any:
        def make() -> Reproducer:
            made.append(number)
            if number == 0:
                raise NotReproduced("synthetic values do not show it")
            return Reproducer("exit(1)\n", of_error("aten.add.Tensor", 0.3))

        return make

    attach(found, [maker(n) for n in range(3)])
    entries = [d.evidence["reproducer"] for d in found]
    assert made == [0, 1]
    assert [entry.get("as") for entry in entries] == [1, None, 1]
    assert entries[1]["script"] == "exit(1)\n"


def test_the_device_has_its_name_where_the_simulator_was_imported_without_it() -> None:
    code = (
        "import torch, sim_backend.capabilities\n"
        "from pipeline.execution.scripts import ScriptRuns\n"
        "ScriptRuns().prepare()\n"
        "assert torch.device('spyre').type == 'spyre'\n"
    )
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
