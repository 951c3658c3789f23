"""Runs a drafter over tasks: up to k candidates each, every one judged as the gate judges; what was refused is told."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agents.drafters.rules import RulesDrafter
from agents.types import Candidate, Diagnosis, DraftContext
from pipeline.bench.device import documents_refused, model_refused
from pipeline.bench.judge import Judgement, judge_form
from pipeline.bench.model_child import ModelChild
from pipeline.bench.structural import has_code
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

    `solved_by` is the digest of that candidate, `end` how a model's last draft ended.
    """

    id: str
    pattern: str
    solved_at: int | None = None
    solved_by: str = ""
    candidates: int = 0
    reason: str = ""
    end: str = ""
    draft_seconds: float = 0.0
    draft_cpu_seconds: float = 0.0
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
    child: ModelChild | None = None,
) -> list[Result]:
    """Every task with up to `k` candidates. Seeds are drawn here and never told. The child is ended afterwards."""
    seed = secrets.randbelow(1 << 31)
    with child or ModelChild() as judging:
        return [run_task(draft, task, judging, seed, hidden, k, spent) for task in tasks]


def run_task(
    draft: Draft,
    task: Task,
    child: ModelChild,
    seed: int,
    hidden: frozenset[str] = frozenset(),
    k: int = K,
    spent: Callable[[], Spent] = Spent,
) -> Result:
    """One task with up to `k` candidates, the reason of each refusal told to the next draft."""
    result, context = Result(task.id, task.pattern), replace(task.context, hidden_patterns=hidden)
    for attempt in range(1, k + 1):
        drafted = _draft_one(draft, task, context, result, spent)
        if not drafted:
            break
        found = judge(task, drafted[0], child, seed)
        if _note(result, task, drafted[0], found, attempt):
            break
        context.rejected[drafted[0].digest] = found.reason
    return result


def _draft_one(
    draft: Draft, task: Task, context: DraftContext, result: Result, spent: Callable[[], Spent]
) -> Sequence[Candidate]:
    began, began_cpu = time.perf_counter(), time.process_time()
    found = [c for c in draft(task, task.diagnoses, context) if c.digest not in context.rejected][:1]
    result.draft_seconds += time.perf_counter() - began
    result.draft_cpu_seconds += time.process_time() - began_cpu
    used = spent()
    known = result.spent.cost_usd is not None and used.cost_usd is not None
    cost = (result.spent.cost_usd or 0.0) + (used.cost_usd or 0.0) if known else None
    result.end = used.end or result.end
    result.spent = Spent(result.spent.turns + used.turns, result.spent.tokens + used.tokens, cost)
    if not found and not result.reason:
        result.reason = "no candidate"
    return found


def judge(task: Task, candidate: Candidate, child: ModelChild, seed: int) -> Judgement:
    """The judgement of a candidate, device included; `child` judges the documents of structural ones."""
    if isinstance(task, FormTask):
        return judge_form(task, candidate, seed)
    answer = child.judge(task.id, candidate, seed)
    found = Judgement(**answer["judgement"])
    if not found.accepted:
        return found
    code = has_code(candidate)
    refused = documents_refused(task, answer["documents"]) if code else model_refused(task, candidate)
    return Judgement(False, "device", refused, seconds=found.seconds) if refused else found


def _note(result: Result, task: Task, candidate: Candidate, found: Judgement, attempt: int) -> bool:
    result.candidates += 1
    result.judge_seconds += found.seconds
    if not found.accepted:
        result.reason = f"{found.stage}: {found.reason}"
        return False
    result.solved_at, result.solved_by, result.reason = attempt, candidate.digest, ""
    result.proved = any(patch.proof for patch in candidate.patches)
    if found.cost_ns and isinstance(task, FormTask):
        from pipeline.bench.judge import cost_ns

        best = cost_ns(task.reference.patches[0].parameters["document"])
        result.cost_ratio = round(found.cost_ns / best, 4)
    return True
