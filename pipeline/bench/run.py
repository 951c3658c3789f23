"""Runs a drafter over tasks: up to k candidates each, every one judged as the gate judges; what was refused is told."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agents.drafters.rules import RulesDrafter
from agents.types import Candidate, Diagnosis, DraftContext
from pipeline.bench.device import model_refused
from pipeline.bench.judge import Judgement, judge_form
from pipeline.bench.model_child import judge_in_child
from pipeline.bench.structural import MODEL_TASKS, ModelTask
from pipeline.bench.tasks import FormTask, Task

K = 3
Draft = Callable[[Task, list[Diagnosis], DraftContext], Sequence[Candidate]]


@dataclass
class Spent:
    """What a model used, and how its draft ended; None where it is not known, 0 where no model was asked."""

    turns: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    end: str = ""


@dataclass
class Result:
    """One task: at which candidate it was solved (from 1), what the last refusal said, what was used.

    `end` is how a model's last draft ended.
    """

    id: str
    pattern: str
    solved_at: int | None = None
    candidates: int = 0
    reason: str = ""
    end: str = ""
    draft_seconds: float = 0.0
    judge_seconds: float = 0.0
    cost_ratio: float | None = None
    proved: bool = False
    spent: Spent = field(default_factory=Spent)


def by_rules(task: Task, diagnoses: list[Diagnosis], context: DraftContext) -> Sequence[Candidate]:
    """The rules drafter; for element-wise tasks it captures the bench's module."""
    drafter = RulesDrafter(capture=task.documents.__getitem__) if isinstance(task, FormTask) else RulesDrafter()
    return list(drafter.draft(diagnoses, context))


def by_nobody(task: Task, diagnoses: list[Diagnosis], context: DraftContext) -> Sequence[Candidate]:
    """No candidate at all."""
    return []


def by_echo(task: Task, diagnoses: list[Diagnosis], context: DraftContext) -> Sequence[Candidate]:
    """What is there already."""
    return [task.echo]


DRAFTERS: dict[str, Draft] = {"rules": by_rules, "null": by_nobody, "echo": by_echo}


def run_bench(
    draft: Draft,
    tasks: Sequence[Task],
    hidden: frozenset[str] = frozenset(),
    k: int = K,
    spent: Callable[[], Spent] = Spent,
) -> list[Result]:
    """Every task with up to `k` candidates, one round after the other. Seeds are drawn here and never told."""
    results = {task.id: Result(task.id, task.pattern) for task in tasks}
    contexts = {task.id: replace(task.context, hidden_patterns=hidden) for task in tasks}
    open_tasks, seed = list(tasks), secrets.randbelow(1 << 31)
    for attempt in range(1, k + 1):
        drafted: list[tuple[Task, Candidate]] = []
        for task in open_tasks:
            drafted += [(task, c) for c in _draft_one(draft, task, contexts[task.id], results[task.id], spent)]
        open_tasks = []
        for (task, candidate), found in zip(drafted, _judge_all(drafted, seed), strict=True):
            if not _note(results[task.id], task, candidate, found, attempt):
                contexts[task.id].rejected[candidate.digest] = found.reason
                open_tasks.append(task)
    return list(results.values())


def _draft_one(
    draft: Draft, task: Task, context: DraftContext, result: Result, spent: Callable[[], Spent]
) -> Sequence[Candidate]:
    began = time.perf_counter()
    found = [c for c in draft(task, task.diagnoses, context) if c.digest not in context.rejected][:1]
    result.draft_seconds += time.perf_counter() - began
    used = spent()
    known = result.spent.cost_usd is not None and used.cost_usd is not None
    cost = (result.spent.cost_usd or 0.0) + (used.cost_usd or 0.0) if known else None
    result.end = used.end or result.end
    result.spent = Spent(result.spent.turns + used.turns, result.spent.tokens + used.tokens, cost)
    if not found and not result.reason:
        result.reason = "no candidate"
    return found


def _judge_all(drafted: Sequence[tuple[Task, Candidate]], seed: int) -> list[Judgement]:
    models = [(number, task, c) for number, (task, c) in enumerate(drafted) if isinstance(task, ModelTask)]
    found = {
        number: judge_form(task, c, seed) for number, (task, c) in enumerate(drafted) if isinstance(task, FormTask)
    }
    if models:
        answer = judge_in_child([(MODEL_TASKS.index(task), c) for _, task, c in models], [], seed)
        for (number, task, candidate), judged in zip(models, answer["judged"], strict=True):
            found[number] = on_device(task, candidate, Judgement(**judged))
    return [found[number] for number in range(len(drafted))]


def on_device(task: ModelTask, candidate: Candidate, found: Judgement) -> Judgement:
    """The judgement of the documents, and for one that was accepted that of the device."""
    if not found.accepted:
        return found
    refused = model_refused(task, candidate)
    return Judgement(False, "device", refused, seconds=found.seconds) if refused else found


def _note(result: Result, task: Task, candidate: Candidate, found: Judgement, attempt: int) -> bool:
    result.candidates += 1
    result.judge_seconds += found.seconds
    if not found.accepted:
        result.reason = f"{found.stage}: {found.reason}"
        return False
    result.solved_at, result.reason = attempt, ""
    result.proved = any(patch.proof for patch in candidate.patches)
    if found.cost_ns and isinstance(task, FormTask):
        from pipeline.bench.judge import cost_ns

        best = cost_ns(task.reference.patches[0].parameters["document"])
        result.cost_ratio = round(found.cost_ns / best, 4)
    return True
