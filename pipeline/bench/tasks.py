"""The bench's tasks: a diagnosis to draft for, under one condition of dtype, shape and profile."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import torch

from adapters.document import capture_module
from agents.types import (
    Candidate,
    Diagnosis,
    DraftContext,
    Drafter,
    Exactness,
    Failure,
    FailureKind,
    PatchDraft,
    canonical,
)
from pipeline.bench.forms import FORMS, Form, Function, Written, fresh_forms
from pipeline.bench.structural import MODEL_TASKS, ModelTask, fresh_tasks
from pipeline.diagnosis.patterns import Facts, patterns_for

Split = Literal["public", "fresh"]
SHAPES = ((2, 64, 768), (1, 128, 3072), (4, 7, 100), (1, 1, 64))
DTYPES = ("float16", "bfloat16")
PATH = "layers.0.activation"


@dataclass(frozen=True)
class FormTask:
    """One element-wise form under one condition. `id` is stable: results are compared by it."""

    form: Form
    profile: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def id(self) -> str:
        """Form, dtype, shape and profile in one text."""
        return f"{self.pattern}/{self.form.name}/{self.dtype}/{'x'.join(map(str, self.shape))}/{self.profile}"

    @property
    def pattern(self) -> str:
        """The pattern of the catalogue whose form it is."""
        return self.form.pattern

    @property
    def module_class(self) -> str:
        """The name under which drafters know the stock module."""
        return f"bench.{self.form.name.replace(' ', '_')}"

    @property
    def stock(self) -> Written:
        """The stock module."""
        return Written(self.form.stock)

    @property
    def documents(self) -> dict[str, dict[str, Any]]:
        """What capturing gives for each module class: only this one's."""
        return {self.module_class: captured(self.form.stock)}

    @property
    def diagnoses(self) -> list[Diagnosis]:
        """What the diagnosis says: each refused operation, and the patterns its table names."""
        failures = [
            Failure(
                FailureKind.UNSUPPORTED_OP, op=op, source="bench.py:1", module=PATH, shapes=(self.shape,),
                message=f"contains unimplemented operation {op}", dtypes=(self.dtype,), dtype_run=self.dtype,
            )
            for op in self.form.refused
        ]  # fmt: skip
        facts = Facts(elementwise={PATH: self.module_class})
        return [Diagnosis(f, patterns_for(f, facts), self._evidence) for f in failures]

    @property
    def _evidence(self) -> dict[str, Any]:
        """The stock module as a document: there is no source file to read."""
        return {"module_class": self.module_class, "stock_document": captured(self.form.stock)}

    @property
    def context(self) -> DraftContext:
        """What the drafters are told."""
        return DraftContext(f"bench-{self.form.name}", self.profile, self.dtype)

    def candidate(self, function: Function, drafter: Drafter = Drafter.HAND) -> Candidate:
        """The candidate that replaces the stock module by `function`, claiming what the reference claims."""
        exactness = Exactness.EXACT if self.form.bound is None else Exactness.BOUNDED
        parameters = {"module_class": self.module_class, "document": captured(function)}
        patch = PatchDraft("P01", parameters, drafter, exactness, self.form.bound)
        return Candidate(self.context.family, self.profile, self.dtype, (patch,))

    @property
    def reference(self) -> Candidate:
        """The right answer that is known."""
        return self.candidate(self.form.reference)

    @property
    def near_misses(self) -> list[Candidate]:
        """Wrong answers that look right."""
        return [self.candidate(function) for function in self.form.near_misses]

    @property
    def echo(self) -> Candidate:
        """The stock module as the answer."""
        return self.candidate(self.form.stock)


Task = FormTask | ModelTask


@cache
def captured(function: Function) -> dict[str, Any]:
    """The document of a function of one tensor."""
    return capture_module(Written(function))


def conditions(form: Form, number: int) -> list[FormTask]:
    """The form on each of its profiles, with dtype and shape in turn."""
    return [
        FormTask(form, profile, DTYPES[(number + i) % 2], SHAPES[(number + 2 * i) % len(SHAPES)])
        for i, profile in enumerate(form.profiles)
    ]


def load_tasks(split: Split = "public", seed: int = 0) -> list[Task]:
    """The tasks of a split: `public` is always the same, `fresh` (forms and sizes of models) is drawn from `seed`."""
    if split == "fresh":
        forms = [task for i, form in enumerate(fresh_forms(seed)) for task in conditions(form, i)[:1]]
        return [*forms, *fresh_tasks(seed)]
    return [*(task for i, form in enumerate(FORMS) for task in conditions(form, i)), *MODEL_TASKS]


def digest_of_tasks(tasks: Sequence[Task]) -> str:
    """sha256 over what the tasks ask: ids, diagnoses and stock documents. Equal digests, comparable scores."""
    asked = [[task.id, [asdict(d) for d in task.diagnoses], task.documents] for task in tasks]
    return hashlib.sha256(canonical(asked)).hexdigest()


def dtype_of(task: Task) -> torch.dtype:
    """The dtype that runs."""
    return {"float16": torch.float16, "bfloat16": torch.bfloat16}[task.dtype]


def patterns_of(tasks: Sequence[Task]) -> list[str]:
    """The patterns of the tasks, sorted."""
    return sorted({task.pattern for task in tasks})
