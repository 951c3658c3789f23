"""The `llm` drafter on the bench: element-wise tasks, with the pattern asked for hidden from rules and examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.drafters.llm.records import MemoryTrajectory
from agents.types import Candidate, Diagnosis, DraftContext, SandboxRunner
from pipeline.bench.judge import judge_form
from pipeline.bench.run import Spent
from pipeline.bench.tasks import FormTask, Task


def measurable(tasks: Sequence[Task]) -> list[FormTask]:
    """The tasks that a language model is asked: element-wise ones; structural patches are not drafted as documents."""
    return [task for task in tasks if isinstance(task, FormTask)]


class LanguageBench:
    """Drafts with the configured endpoint within `limit_usd`; keeps conversations, counts what was used.

    `capture` runs drafted code in the sandbox.
    """

    def __init__(self, drafter: Any, limit_usd: float, capture: SandboxRunner | None = None) -> None:
        from agents.drafters.llm import MemoryLedger
        from pipeline.drafting.trials import capture_validated

        self._drafter, self._ledger, self._seen = drafter, MemoryLedger(limit_usd), 0
        self._capture = capture or capture_validated
        self.trajectories: list[MemoryTrajectory] = []

    def __call__(self, task: Task, diagnoses: list[Diagnosis], context: DraftContext) -> Sequence[Candidate]:
        """The model's candidates of an element-wise task; structural tasks are not for a model."""
        if not isinstance(task, FormTask):
            return []
        hidden = context.hidden_patterns | {"P01"}
        asked = replace(
            context, hidden_patterns=hidden, capture=self._capture, test=self._tester(task),
            trajectories=self._open, budget=self._ledger,
        )  # fmt: skip
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

    def _tester(self, task: FormTask) -> Any:
        def test(candidate: Candidate, /) -> dict[str, Any]:
            import secrets

            found = judge_form(task, candidate, secrets.randbelow(1 << 31))
            kind = None if found.accepted else "wrong_values" if found.stage == "equivalence" else "unsupported_op"
            return {"passed": found.accepted, "kind": kind, "op": None, "error": None}

        return test
