"""What the rules draft alone: `python -m benchmarks.drafting [--json] [--only PATTERN]`.

Every task of the public bench (`pipeline.bench`), judged as the gate judges. `controls` shows that the bench itself is
fair: references pass, near misses, `null` and `echo` do not. Cost is relative to the task's reference form.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache

from benchmarks.figures import Figure, main
from pipeline.bench.judge import judge
from pipeline.bench.model_child import judge_in_child
from pipeline.bench.run import DRAFTERS, K, Result, run_bench
from pipeline.bench.score import score
from pipeline.bench.structural import MODEL_TASKS
from pipeline.bench.tasks import FormTask, load_tasks

SEED = 20261130


@cache
def results(drafter: str) -> tuple[Result, ...]:
    """The results of one drafter on the public tasks."""
    return tuple(run_bench(DRAFTERS[drafter], load_tasks()))


def rules() -> Iterator[Figure]:
    """Share solved, time to draft and cost against the best known form."""
    found = score(results("rules"), K)
    yield Figure("share of tasks the rules solve", found["share_at_1"], "", 0.9, at_least=True)
    yield Figure("median time to draft", found["median_draft_seconds"], "s", 3.0)
    yield Figure("largest simulated cost over the reference's", found["largest_cost_ratio"], "x", 1.1)


def controls() -> Iterator[Figure]:
    """Whether right answers pass and wrong ones fail."""
    for drafter in ("null", "echo"):
        yield Figure(f"tasks that {drafter} solves", float(score(results(drafter), K)["solved_at_k"]), "", 0.0)
    forms = [task for task in load_tasks() if isinstance(task, FormTask)]
    numbers = range(len(MODEL_TASKS))
    child = judge_in_child([(n, MODEL_TASKS[n].reference) for n in numbers], list(numbers), SEED)
    refused = sum(not judge(task, task.reference, SEED).accepted for task in forms)
    refused += sum(not judged["accepted"] for judged in child["judged"])
    yield Figure("references refused", float(refused), "", 0.0)
    accepted = sum(judge(task, miss, SEED).accepted for task in forms for miss in task.near_misses)
    accepted += sum(made - failed for failed, made in child["misses"])
    yield Figure("near misses accepted", float(accepted), "", 0.0)


if __name__ == "__main__":
    sys.exit(main({"rules": rules, "controls": controls}, __doc__))
