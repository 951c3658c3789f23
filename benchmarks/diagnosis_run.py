"""Runs a case of the diagnosis benchmark: rounds, servers, reproducers in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.diagnosis_cases import Case
from benchmarks.diagnosis_faults import Fault
from benchmarks.diagnosis_judge import is_named

ROUNDS = 3
"""Rounds in which several faults at once must all be named."""
TRIGGERS = 2.0
"""A fault that no operation shows triggers if the whole model is further off than this many clean runs."""


class NoAnswer(Exception):
    """A task ended without an answer; the message says why."""


def known_triggers(server: Server, model: str, kept: Path) -> dict[str, Any]:
    """Which faults trigger in a model, asked once. Where there is no answer: none, and the `error`, not kept."""
    if not kept.exists():
        try:
            kept.write_text(json.dumps(server.triggers(model)))
        except NoAnswer as why:
            return {"met": [], "seconds": 0.0, "error": str(why)}
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def answer(case: Case, server: Server, *, reproducers: bool) -> dict[str, Any]:
    """The answer to a case, with `cpu` seconds; `error` where there is none.

    Of a fault that no operation shows the whole model's error says first whether it triggers.
    """
    server.cpu = 0.0
    try:
        if case.is_unseen and not triggers_in_run(case, server):
            found: dict[str, Any] = {"truth": [], "causes": [], "curves": {}}
        else:
            ask = partial(server.diagnosed, case.family, truth=case.truth(), reproducers=reproducers)
            found = with_effect(case, in_rounds(case.faults, ask), server)
    except NoAnswer as why:
        found = {"error": str(why)}
    return {**found, "cpu": round(server.cpu, 1)}


def with_effect(case: Case, found: dict[str, Any], server: Server) -> dict[str, Any]:
    """The answer; where nothing is said of a fault that is met, a run of the whole model decides if it does anything.

    A misread weight that lies in memory as it is read is not wrong: such a pair is told apart as `without_effect`.
    """
    said = [c for c in found["causes"] if c["kind"] != "cpu_fallback"]
    if said or not found["truth"] or triggers_in_run(case, server):
        return found
    return {**found, "truth": [], "without_effect": found["truth"]}


def triggers_in_run(case: Case, server: Server) -> bool:
    """True if the whole model is further off with the faults than without."""
    return server.error(case.family, case.faults) > TRIGGERS * server.clean_error(case.family)


def in_rounds(faults: Sequence[Fault], diagnosed: Callable[[Sequence[Fault]], dict[str, Any]]) -> dict[str, Any]:
    """The answers of up to ROUNDS rounds as one: between them the faults named so far are switched off.

    `truth` is that of the first round, `rounds` how many there were.
    """
    left, whole = list(faults), {"truth": [], "causes": [], "rounds": 0}  # type: Any, dict[str, Any]
    while whole["rounds"] < ROUNDS:
        found = diagnosed(left)
        first = found if whole["rounds"] == 0 else whole
        causes = [*whole["causes"], *found["causes"]]
        whole = {**first, "causes": causes, "rounds": whole["rounds"] + 1}
        named = [f for f in left if is_named(f, found)]
        left = [f for f in left if f not in named]
        if not left or not named:
            break
    return {**whole, "left": [f.name for f in left]}


class Server:
    """A process that has everything imported and forks one for each task; `cpu` counts what they cost."""

    def __init__(self, *, fresh: bool) -> None:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        argv = [sys.executable, "-m", "benchmarks.diagnosis_server"]
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._fresh = fresh
        self._clean: dict[str, float] = {}
        self.cpu = 0.0

    def diagnosed(
        self, family: str, faults: Sequence[Fault], truth: list[dict[str, str]], reproducers: bool
    ) -> dict[str, Any]:
        """What the diagnosis says, its reproducers run. Raises NoAnswer."""
        with tempfile.TemporaryDirectory(prefix="spyre-bench-") as folder:
            case = _written(Path(folder), family, faults, {"truth": truth, "reproducers": reproducers})
            self._ask(task="case", case=str(case), out=f"{folder}/out.json")
            found: dict[str, Any] = json.loads(Path(folder, "out.json").read_text())
            for cause in found["causes"]:
                if cause["reproducer"] is not None:
                    cause["reproducer"] = self._checked(cause["reproducer"], case)
            return found

    def error(self, family: str, faults: Sequence[Fault]) -> float:
        """How far the whole model is off. Raises NoAnswer."""
        with tempfile.TemporaryDirectory(prefix="spyre-bench-") as folder:
            case = _written(Path(folder), family, faults, {})
            self._ask(task="error", case=str(case), out=f"{folder}/out.json")
            return float(json.loads(Path(folder, "out.json").read_text()))

    def triggers(self, model: str) -> dict[str, Any]:
        """Which faults trigger in a model. Raises NoAnswer."""
        with tempfile.TemporaryDirectory(prefix="spyre-bench-") as folder:
            self._ask(task="triggers", case=model, out=f"{folder}/out.json")
            found: dict[str, Any] = json.loads(Path(folder, "out.json").read_text())
            return found

    def clean_error(self, family: str) -> float:
        """That without faults, measured once."""
        if family not in self._clean:
            self._clean[family] = self.error(family, ())
        return self._clean[family]

    def _checked(self, entry: dict[str, Any], case: Path) -> dict[str, Any]:
        """The entry after its script ran in a fresh process."""
        from pipeline.diagnosis.reproducer.check import judged
        from pipeline.diagnosis.reproducer.signature import Signature
        from pipeline.execution.reproduce import kept_if_same

        if entry["script"] is None:
            return entry
        script, said = case.with_name("script.py"), case.with_name("said.txt")
        script.write_text(entry["script"])
        asked = {"task": "script", "case": str(case), "script": str(script), "out": str(said)}
        code = _in_new_interpreter(asked) if self._fresh else self._ask(**asked)
        return kept_if_same(entry, judged(code, said.read_text(), Signature(**entry["signature"])))

    def _ask(self, **asked: str) -> int:
        """The exit status of a task. Raises NoAnswer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise NoAnswer("the server has ended") from error
        line = self._process.stdout.readline()
        if not line:
            raise NoAnswer("the server has ended")
        told = json.loads(line)
        self.cpu += told["cpu"]
        if told["said"] != "done":
            raise NoAnswer(told["said"])
        return int(told["code"])

    @property
    def has_ended(self) -> bool:
        """True if the process is gone."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the server, which may have ended before."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _in_new_interpreter(asked: dict[str, str]) -> int:
    argv = [sys.executable, "-m", "benchmarks.diagnosis_server", json.dumps(asked)]
    return subprocess.run(argv, check=False).returncode


def _written(folder: Path, family: str, faults: Sequence[Fault], more: dict[str, Any]) -> Path:
    path = folder / "case.json"
    path.write_text(json.dumps({"family": family, "faults": [f.to_dict() for f in faults], **more}))
    return path


class Servers:
    """One server per thread that asks."""

    def __init__(self, *, fresh: bool) -> None:
        self._mine, self._all, self._fresh = threading.local(), [], fresh  # type: threading.local, list[Server], bool

    def mine(self) -> Server:
        """The server of this thread, a new one where it has ended."""
        if not hasattr(self._mine, "server") or self._mine.server.has_ended:
            self._mine.server = Server(fresh=self._fresh)
            self._all.append(self._mine.server)
        found: Server = self._mine.server
        return found

    def close(self) -> None:
        """End all of them."""
        for server in self._all:
            server.close()
