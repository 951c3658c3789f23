"""Children that judge batches: each is started once and takes one batch after the other.

What a child has imported, the models it has made and their stock documents serve all its batches. One that dies or
hangs is ended, and another is started for the next batch. Nothing of a child outlives this process.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pipeline.work import reaper

BATCH_LIMIT_S = 3600.0
WORKER = (sys.executable, "-m", "pipeline.verification.selftest.worker")


class Judge:
    """One child that runs `command`. Its `judge` is called by one thread at a time."""

    def __init__(self, command: Sequence[str] = WORKER) -> None:
        self._command = command
        self._child: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `close` does

    def judge(self, batch: Mapping[str, Any], folder: Path) -> list[dict[str, Any]] | str:
        """The outcomes of a batch as plain data, or why there are none."""
        with tempfile.TemporaryDirectory(dir=folder) as work:
            task, out = Path(work) / "batch.json", Path(work) / "out.json"
            task.write_text(json.dumps(batch))
            said = self._ask(json.dumps([str(task), str(out)]))
            if said != "done":
                return said
            answer: list[dict[str, Any]] = json.loads(out.read_text())
            return answer

    def _ask(self, line: str) -> str:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):
            child.stdin.write(line + "\n")
            child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], BATCH_LIMIT_S)
        said = child.stdout.readline().strip() if ready else ""
        if said:
            return said
        if ready:
            child.wait()
        self.end()
        if not ready:
            return f"the child was ended after {BATCH_LIMIT_S:g} s"
        return f"the child ended with status {child.returncode}: {self._last_errors()}"

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None:
            watched = [sys.executable, "-I", "-S", str(reaper.__file__), "--parent", str(os.getpid()), "--"]
            argv = [*watched, *self._command]
            env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=self._errors, text=True)
        return self._child

    def _last_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().strip()[-500:]

    def end(self) -> None:
        """Ends the child with what it started; the next batch gets another."""
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(reaper.KILL_NOW)
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def close(self) -> None:
        """Ends the child for good."""
        self.end()
        self._errors.close()


class Judges:
    """So many children; whoever has a batch takes one that is free."""

    def __init__(self, count: int) -> None:
        self._all = [Judge() for _ in range(count)]
        self._free, self._lock = list(self._all), threading.Semaphore(count)

    def judge(self, batch: Mapping[str, Any], folder: Path) -> list[dict[str, Any]] | str:
        """The outcomes of a batch as plain data, or why there are none; waits until a child is free."""
        with self._lock:
            judge = self._free.pop()
            try:
                return judge.judge(batch, folder)
            finally:
                self._free.append(judge)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for judge in self._all:
            judge.close()
