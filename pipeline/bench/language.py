"""The `llm` drafter on the bench: every pattern that could cure the cause is hidden from rules, examples and library.

For structural causes it drafts code for the whole model, which is captured and judged in the sandbox. Asked are those
causes that the device's report of documents can show: of the others nobody could say whether code cured them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adapters.replay.operators import VIEWS
from agents.drafters.llm.records import MemoryTrajectory
from agents.drafters.targets import DOCUMENT_PATTERN
from agents.types import Candidate, Diagnosis, DraftContext, SandboxRunner
from pipeline.bench.model_child import ModelChild
from pipeline.bench.run import Spent, judge
from pipeline.bench.structural import SUBJECTS, ModelTask
from pipeline.bench.tasks import FormTask, Task

KINDS = {"device": "unsupported_op", "equivalence": "wrong_values"}
"""What a test run tells of a refusal, by stage; other stages refuse the form of the code."""


def measurable(tasks: Sequence[Task]) -> list[Task]:
    """The tasks that a language model is asked."""
    return [task for task in tasks if isinstance(task, FormTask) or shows_in_documents(task)]


def shows_in_documents(task: ModelTask) -> bool:
    """Whether documents of the stock model show the cause: outside blocks, views are no work of the device there."""
    cause = task.cause
    return cause.shown and (cause.place == "block" or cause.op not in VIEWS)


class LanguageBench:
    """Drafts with the configured endpoint within `limit_usd`; keeps conversations, counts what was used.

    `capture` runs drafted code of element-wise modules in the sandbox; the child has its own sandbox for models.
    """

    def __init__(self, drafter: Any, limit_usd: float, child: ModelChild, capture: SandboxRunner | None = None) -> None:
        from agents.drafters.llm import MemoryLedger
        from pipeline.drafting.trials import capture_validated

        self._drafter, self._ledger, self._child, self._seen = drafter, MemoryLedger(limit_usd), child, 0
        self._capture = capture or capture_validated
        self.trajectories: list[MemoryTrajectory] = []

    def __call__(self, task: Task, diagnoses: list[Diagnosis], context: DraftContext) -> Sequence[Candidate]:
        """The model's candidates."""
        asked = replace(
            context, hidden_patterns=context.hidden_patterns | hidden_for(task), capture=self._capture,
            test=self._tester(task), trajectories=self._open, budget=self._ledger,
        )  # fmt: skip
        if isinstance(task, ModelTask):
            asked = replace(asked, model_class=task.model_class, config=SUBJECTS[task.subject])
        return list(self._drafter.draft(diagnoses, asked))

    def spent(self) -> Spent:
        """What was used since the last call."""
        reports = self._drafter.reports[self._seen :]
        self._seen = len(self._drafter.reports)
        costs = [r.cost_usd for r in reports]
        cost = None if None in costs else sum(costs)
        end = str(reports[-1].end) if reports else ""
        return Spent(sum(r.turns for r in reports), sum(r.tokens for r in reports), cost, end)

    def _open(self, place: str) -> MemoryTrajectory:
        self.trajectories.append(MemoryTrajectory(place))
        return self.trajectories[-1]

    def _tester(self, task: Task) -> Any:
        def test(candidate: Candidate, /) -> dict[str, Any]:
            seed = secrets.randbelow(1 << 31)
            found = judge(task, candidate, self._child, seed)
            kind = None if found.accepted else KINDS.get(found.stage, "unsupported_op")
            return {"passed": found.accepted, "kind": kind, "op": None, "error": None}

        return test


def hidden_for(task: Task) -> frozenset[str]:
    """The patterns that a model must do without: every one that could cure the cause."""
    return frozenset({DOCUMENT_PATTERN}) if isinstance(task, FormTask) else task.named
