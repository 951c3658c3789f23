"""Judges structural tasks in a process of its own: capture pretends a device, which the simulator's must not be.

In: {"seed": N, "judge": [[task number, candidate], ...], "misses": [task number, ...]} on standard input. Out: the
judgements in order, and for each task in `misses` how many mistakes were refused, and how many made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from agents.types import Candidate, candidate_from_dict

MISSES = 4
"""Mistakes drawn for a task."""
MISSES_SEED = 11


def judge_in_child(judge: Sequence[tuple[int, Candidate]], misses: Sequence[int], seed: int) -> dict[str, Any]:
    """Runs the child. Raises RuntimeError with its last words if it fails."""
    content = {"seed": seed, "judge": [[number, c.to_dict()] for number, c in judge], "misses": list(misses)}
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = [sys.executable, "-m", "pipeline.bench.model_child"]
    done = subprocess.run(command, input=json.dumps(content), env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the bench's child ended with {done.returncode}: {done.stderr[-800:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """The child's work."""
    from pipeline.bench.judge import judge
    from pipeline.bench.structural import MODEL_TASKS

    content = json.load(sys.stdin)
    judged = [
        judge(MODEL_TASKS[number], candidate_from_dict(candidate), content["seed"])._asdict()
        for number, candidate in content["judge"]
    ]
    refused = [refused_misses(number, content["seed"]) for number in content["misses"]]
    sys.stdout.write(json.dumps({"judged": judged, "misses": refused}) + "\n")


def refused_misses(number: int, seed: int) -> tuple[int, int]:
    """How many of the mistakes in what a task's reference changed are refused, and how many there are."""
    from dataclasses import replace

    from pipeline.bench.judge import judge_documents, judged_model
    from pipeline.bench.structural import MODEL_TASKS
    from pipeline.verification.mutants.draw import mutants
    from pipeline.verification.selftest.judge import stock_of

    task = MODEL_TASKS[number]
    right = judged_model(task, task.reference)
    made = mutants(right.documents[0], MISSES_SEED, MISSES, stock_of(task.subject, seed).document)
    results = [judge_documents(replace(right, count=1, documents=[m.document]), seed) for m in made]
    return sum(not r.accepted for r in results), len(results)


if __name__ == "__main__":
    main()
