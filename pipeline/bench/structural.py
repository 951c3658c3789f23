"""Structural tasks of the bench: a pattern that a small model needs, drafted from a diagnosis and judged on documents.

A cause is one that the capability report of the stock model shows, or that an experiment of the diagnosis narrowed
down. The device stage asks for the report of the patched model: the cause must be gone and nothing new refused.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from agents.capture.apply import CODE
from agents.drafters.rules.patterns import ROWS
from agents.types import Candidate, Diagnosis, DraftContext, Drafter, Exactness, Failure, FailureKind, PatchDraft
from pipeline.bench.causes import CAUSES, Cause
from pipeline.diagnosis.facts import model_facts
from pipeline.diagnosis.patterns import patterns_for
from pipeline.verification.selftest.subjects import DRAWN, SUBJECTS

BOUNDS = {row.id: row.bound for row in ROWS if row.bound is not None}
"""What patterns claim that are not exact (docs/decisions/0018)."""


@dataclass(frozen=True)
class ModelTask:
    """One structural cause of one small model."""

    cause: Cause

    @property
    def pattern(self) -> str:
        """The pattern of the catalogue that cures the cause."""
        return self.cause.pattern

    @property
    def subject(self) -> str:
        """The small model's name."""
        return self.cause.subject

    @property
    def profile(self) -> str:
        """The device profile."""
        return self.cause.profile

    @property
    def dtype(self) -> str:
        """The dtype that the patched model runs in."""
        return next((str(p["dtype"]) for n, p in self.cause.patches if n == "P56"), "float16")

    @property
    def failure(self) -> Failure:
        """The cause as the diagnosis hands it on."""
        c = self.cause
        return Failure(
            FailureKind(c.kind), c.op, c.source, c.module, c.message, c.place, shapes=c.shapes, dtypes=c.dtypes,
            scalars=c.scalars, dtype_run=c.dtype_run,
        )  # fmt: skip

    @property
    def id(self) -> str:
        """Pattern, subject and cause in one text."""
        return f"{self.pattern}/{self.subject}/{self.cause.kind}/{self.cause.op}/{self.profile}"

    @property
    def diagnoses(self) -> list[Diagnosis]:
        """The cause with the patterns that the diagnosis's table names for this model."""
        return [Diagnosis(self.failure, patterns_for(self.failure, facts_of(self.subject)))]

    @property
    def named(self) -> frozenset[str]:
        """The patterns that may cure the cause: the one asked for, and others that the diagnosis names."""
        return frozenset({self.pattern, *(use.pattern for d in self.diagnoses for use in d.patterns)})

    @property
    def model_class(self) -> str:
        """The dotted name of the stock model's class."""
        kind = type(on_meta(self.subject))
        return f"{kind.__module__}.{kind.__qualname__}"

    @property
    def documents(self) -> dict[str, dict[str, Any]]:
        """No element-wise module is asked for."""
        return {}

    @property
    def context(self) -> DraftContext:
        """What the drafters are told."""
        return DraftContext(f"bench-{self.subject}", self.profile, self.dtype)

    @property
    def reference(self) -> Candidate:
        """The right answer that is known."""
        return self.candidate(*self.cause.patches)

    def candidate(self, *patches: tuple[str, dict[str, Any]]) -> Candidate:
        """A candidate of library patches, each claiming what its pattern claims."""
        drafts = [
            PatchDraft(
                pattern, parameters, Drafter.HAND,
                Exactness.BOUNDED if pattern in BOUNDS else Exactness.EXACT, BOUNDS.get(pattern),
            )
            for pattern, parameters in patches
        ]  # fmt: skip
        return Candidate(self.context.family, self.profile, self.dtype, tuple(drafts))

    @property
    def echo(self) -> Candidate:
        """Nothing changed."""
        return self.candidate()


@cache
def on_meta(subject: str) -> Any:
    """The stock subject without weights. Shared: it must not be changed."""
    import torch

    from pipeline.weights.synthetic.build import build_stock, load_config

    with torch.device("meta"):
        return build_stock(load_config(SUBJECTS[subject]))


@cache
def facts_of(subject: str) -> Any:
    """What the diagnosis knows of a subject's structure."""
    return model_facts(on_meta(subject))


MODEL_TASKS: tuple[ModelTask, ...] = tuple(ModelTask(cause) for cause in CAUSES)
FRESH = 12


def fresh_tasks(seed: int, count: int = FRESH) -> list[ModelTask]:
    """Tasks of `count` patterns on models whose sizes are drawn from `seed`; of each pattern one subject at most."""
    by_pattern: dict[str, list[ModelTask]] = {}
    for cause in CAUSES:
        if (fresh := cause.resized(seed, SUBJECTS[f"{cause.subject}{DRAWN}{seed}"])) is not None:
            by_pattern.setdefault(cause.pattern, []).append(ModelTask(fresh))
    drawn = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    return [drawn.choice(by_pattern[pattern]) for pattern in sorted(drawn.sample(sorted(by_pattern), count))]


def has_code(candidate: Candidate) -> bool:
    """Whether a candidate holds drafted code that changes a model."""
    return any(patch.pattern == CODE for patch in candidate.patches)


def task_called(task_id: str) -> ModelTask:
    """The structural task with this id. Raises KeyError if there is none."""
    subject = task_id.split("/")[1]
    tasks = fresh_tasks(int(subject.partition(DRAWN)[2])) if DRAWN in subject else MODEL_TASKS
    return {task.id: task for task in tasks}[task_id]


__all__ = ["MODEL_TASKS", "SUBJECTS", "ModelTask", "facts_of", "has_code", "on_meta", "task_called"]
