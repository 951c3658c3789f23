"""What the rules draft alone: `python -m benchmarks.drafting [--json] [--only PATTERN] [--tasks PATTERN] [--fresh N]`.

Every task of the public bench (`pipeline.bench`), or of the fresh one of seed N, judged as the gate judges. `nobody`,
`references` and `misses` show that the bench itself is fair: `null`, `echo` and near misses do not pass, right answers
do. Cost is relative to the task's reference form; it is measured of documents, and that of a structural task is known
where the rules drafted the reference's own set (`cost` in `--json` counts both, and names the other drafts).

Each judgement is kept as it comes: a run that was cut off goes on where it was, and `--tasks` does those whose id the
pattern finds, so that parts can be done apart and the whole told at the end. A change of drafters, gate, simulator or
tasks begins anew.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Groups, main
from benchmarks.kept import Kept, cache_folder, digest_of
from pipeline.bench.model_child import ModelChild
from pipeline.bench.run import DRAFTERS, K, Result, Spent, judge, run_task
from pipeline.bench.score import score
from pipeline.bench.tasks import FormTask, Task, load_tasks

SOURCES = ("adapters", "agents", "pipeline/bench", "pipeline/verification", "pipeline/diagnosis", "sim_backend")


class Bench:
    """The tasks with everything that was judged so far."""

    def __init__(self, child: ModelChild, kept: Kept, tasks: Sequence[Task]) -> None:
        self._child, self._kept, self.tasks = child, kept, tasks
        self._seed = secrets.randbelow(1 << 31)

    @property
    def groups(self) -> Groups:
        """What is measured, by name."""
        return {"rules": self.rules, "nobody": self.nobody, "references": self.references, "misses": self.misses}

    def rules(self) -> Iterator[Figure]:
        """Share solved, time to draft and cost against the best known form."""
        results = self._results("rules")
        found, cpu = score(results, K), [r.draft_cpu_seconds for r in results]
        yield Figure("tasks", float(len(results)), "", 60.0, at_least=True)
        yield Figure("share of tasks the rules solve", found["share_at_1"], "", 0.9, at_least=True)
        yield Figure(
            "median time to draft", found["median_draft_seconds"], "s", 3.0, cpu_seconds=(statistics.median(cpu),)
        )
        yield Figure("largest simulated cost over the reference's", found["largest_cost_ratio"], "x", 1.1)

    def cost(self) -> dict[str, Any]:
        """Of which solved tasks the cost is known: none of those that were not judged yet."""
        found: dict[str, list[str]] = {"measured": [], "same set": [], "not known": []}
        for task in self.tasks:
            one = self._kept.known(f"rules {task.id}") or {}
            same = "same set" if one.get("solved_by") == task.reference.digest else "not known"
            if one.get("solved_at"):
                found[same if one["cost_ratio"] is None else "measured"].append(task.id)
        return {"cost": {**{how: len(ids) for how, ids in found.items()}, "not known": found["not known"]}}

    def nobody(self) -> Iterator[Figure]:
        """What is solved without an answer."""
        for drafter in ("null", "echo"):
            solved = score(self._results(drafter), K)["solved_at_k"]
            yield Figure(f"tasks that {drafter} solves", float(solved), "", 0.0)

    def references(self) -> Iterator[Figure]:
        """Whether every right answer that is known is accepted, on the device too."""
        found = self._each("reference", self._reference)
        yield Figure("references refused", float(sum(not one["accepted"] for one in found)), "", 0.0)

    def misses(self) -> Iterator[Figure]:
        """Whether every task has three near misses, and none is accepted."""
        found = self._each("misses", self._misses_of)
        yield Figure("near misses accepted", float(sum(m["accepted"] for ms in found for m in ms)), "", 0.0)
        yield Figure("fewest near misses of a task", float(min(map(len, found))), "", 3.0, at_least=True)

    def _results(self, drafter: str) -> list[Result]:
        run = partial(run_task, DRAFTERS[drafter], child=self._child, seed=self._seed)
        found = self._each(drafter, lambda task: asdict(run(task)))
        return [Result(**{**one, "spent": Spent(**one["spent"])}) for one in found]

    def _reference(self, task: Task) -> dict[str, Any]:
        """The judgement of the reference; where the rules drafted the same candidate it was made already."""
        drafted = self._kept.known(f"rules {task.id}") or {}
        if drafted.get("solved_by") == task.reference.digest:
            return {"accepted": True, "stage": "", "reason": "as drafted by the rules"}
        return self._judged(task, task.reference)

    def _misses_of(self, task: Task) -> list[dict[str, Any]]:
        if isinstance(task, FormTask):
            return [self._judged(task, miss) for miss in task.near_misses]
        return self._child.misses(task.id, self._seed)

    def _judged(self, task: Task, candidate: Any) -> dict[str, Any]:
        return judge(task, candidate, self._child, self._seed)._asdict()

    def _each(self, kind: str, make: Callable[[Task], Any]) -> list[Any]:
        answers = []
        for task in self.tasks:
            answers.append(self._kept.answer(f"{kind} {task.id}", partial(make, task)))
            sys.stderr.write(f"{kind} {task.id}: {answers[-1]}"[:400] + "\n")
        return answers


def measure(arguments: Sequence[str] | None = None, kept: Path | None = None) -> int:
    """Print the figures; 1 if a target is missed. `kept` is where judgements are kept."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--fresh", type=int, default=None)
    chosen, others = parser.parse_known_args(arguments)
    of_split = load_tasks() if chosen.fresh is None else load_tasks("fresh", chosen.fresh)
    tasks = [task for task in of_split if re.search(chosen.tasks, task.id)]
    version = digest_of(SOURCES) + ("" if chosen.fresh is None else f" fresh {chosen.fresh}")
    with ModelChild() as child:
        bench = Bench(child, Kept(kept or cache_folder() / "drafting.jsonl", version), tasks)
        return main(bench.groups, __doc__, others, bench.cost)


if __name__ == "__main__":
    sys.exit(measure())
