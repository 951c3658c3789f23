"""Judges structural tasks in a process of its own: capture pretends a device, which the simulator's must not be.

In: {"seed": N, "judge": [[task number, candidate], ...], "misses": [task number, ...]} on standard input. Out: the
judgements in order, and for each task in `misses` its near misses, each with whether it was accepted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from agents.types import Candidate, candidate_from_dict


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
    from pipeline.bench.model_judge import judge_model, near_misses
    from pipeline.bench.structural import MODEL_TASKS

    content = json.load(sys.stdin)
    seed = content["seed"]
    judged = [
        judge_model(MODEL_TASKS[number], candidate_from_dict(candidate), seed)._asdict()
        for number, candidate in content["judge"]
    ]
    misses = [[m._asdict() for m in near_misses(MODEL_TASKS[number], seed)] for number in content["misses"]]
    sys.stdout.write(json.dumps({"judged": judged, "misses": misses}) + "\n")


if __name__ == "__main__":
    main()
