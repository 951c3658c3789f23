"""What the rules draft alone: `python -m benchmarks.drafting [--json] [--only PATTERN]`.

Every task of the public bench (`pipeline.bench`), judged as the gate judges. `controls` shows that the bench itself is
fair: references pass, near misses, `null` and `echo` do not. Cost is relative to the task's reference form.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from benchmarks.figures import Figure, main
from pipeline.bench.judge import Judgement, judge_form
from pipeline.bench.model_child import judge_in_child
from pipeline.bench.run import DRAFTERS, K, Result, on_device, run_bench
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
    yield from references()
    yield from misses()


def references() -> Iterator[Figure]:
    """Whether every right answer that is known is accepted, on the device too."""
    refused = [t.id for t in forms() if not judge_form(t, t.reference, SEED).accepted]
    judged = zip(MODEL_TASKS, child()["judged"], strict=True)
    refused += [t.id for t, j in judged if not on_device(t, t.reference, Judgement(**j)).accepted]
    yield Figure("references refused", float(len(refused)), "", 0.0)


def misses() -> Iterator[Figure]:
    """Whether every task has three near misses, and none is accepted."""
    accepted = sum(judge_form(task, miss, SEED).accepted for task in forms() for miss in task.near_misses)
    accepted += sum(miss["accepted"] for found in child()["misses"] for miss in found)
    yield Figure("near misses accepted", float(accepted), "", 0.0)
    fewest = [len(task.near_misses) for task in forms()] + [len(found) for found in child()["misses"]]
    yield Figure("fewest near misses of a task", float(min(fewest)), "", 3.0, at_least=True)


def forms() -> list[FormTask]:
    """The element-wise tasks."""
    return [task for task in load_tasks() if isinstance(task, FormTask)]


@cache
def child() -> dict[str, Any]:
    """References judged and near misses drawn, of the structural tasks."""
    numbers = list(range(len(MODEL_TASKS)))
    return judge_in_child([(n, MODEL_TASKS[n].reference) for n in numbers], numbers, SEED)


if __name__ == "__main__":
    sys.exit(main({"rules": rules, "controls": controls}, __doc__))
