"""Judges structural tasks in a process of its own: capture pretends a device, which the simulator's must not be.

One process answers many questions, so that imports and the stock models are made once. A question is one JSON line on
standard input, {"judge": TASK, "candidate": {...}, "seed": N} or {"misses": TASK, "seed": N} with the task's id; the
answer is one JSON line: the judgement (of drafted code with its documents), or the near misses, each with whether it
was accepted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any

from agents.types import Candidate, candidate_from_dict


class ModelChild:
    """The judging process, started at the first question and ended with the block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def judge(self, task: str, candidate: Candidate, seed: int) -> dict[str, Any]:
        """{"judgement", "documents"} of a candidate as plain data; documents are those of drafted code."""
        answer: dict[str, Any] = self._ask({"judge": task, "candidate": candidate.to_dict(), "seed": seed})
        return answer

    def misses(self, task: str, seed: int) -> list[dict[str, Any]]:
        """The near misses of a task."""
        answer: list[dict[str, Any]] = self._ask({"misses": task, "seed": seed})
        return answer

    def _ask(self, question: dict[str, Any]) -> Any:
        """Raises RuntimeError if the process ended; its last words are on standard error."""
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the bench's child ended with {process.wait()}")
        return json.loads(line)

    def __enter__(self) -> ModelChild:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
            self._process = None


def _start() -> subprocess.Popen[str]:
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    argv = [sys.executable, "-m", "pipeline.bench.model_child"]
    return subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer_to(question: dict[str, Any]) -> Any:
    """The answer to one question as plain data."""
    from pipeline.bench.model_judge import judge_code, judge_model, near_misses
    from pipeline.bench.structural import has_code, task_called

    seed = question["seed"]
    if "misses" in question:
        return [m._asdict() for m in near_misses(task_called(question["misses"]), seed)]
    candidate, task = candidate_from_dict(question["candidate"]), task_called(question["judge"])
    if has_code(candidate):
        found = judge_code(task, candidate, seed)
        return {"judgement": found.judgement._asdict(), "documents": found.documents}
    return {"judgement": judge_model(task, candidate, seed)._asdict(), "documents": []}


def main() -> None:
    """Answers lines until there are none; whatever else prints goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        out.write(json.dumps(answer_to(json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
