"""Structural tasks of the bench: a pattern that a small model needs, drafted from a diagnosis and judged on documents.

Near misses are the right patch's document with one mistake in what the patch changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agents.types import Candidate, Diagnosis, DraftContext, Drafter, Exactness, Failure, FailureKind, PatchDraft
from pipeline.diagnosis.facts import model_facts
from pipeline.diagnosis.patterns import patterns_for
from pipeline.verification.selftest.subjects import SUBJECTS, stock_model

SDPA = "aten.scaled_dot_product_attention.default"
_WRONG, _LAYOUT, _OP = FailureKind.WRONG_VALUES, FailureKind.LAYOUT, FailureKind.UNSUPPORTED_OP


@dataclass(frozen=True)
class ModelTask:
    """One structural cause of one small model. `also` are patches the reference needs besides its own."""

    pattern: str
    subject: str
    failure: Failure
    parameters: dict[str, Any] = field(default_factory=dict)
    also: tuple[tuple[str, dict[str, Any]], ...] = ()
    profile: str = "profile-2026-08"
    dtype: str = "float16"

    @property
    def id(self) -> str:
        """Pattern, subject and cause in one text."""
        return f"{self.pattern}/{self.subject}/{self.failure.kind}/{self.failure.op}/{self.profile}"

    @property
    def diagnoses(self) -> list[Diagnosis]:
        """The cause with the patterns that the diagnosis's table names for this model."""
        return [Diagnosis(self.failure, patterns_for(self.failure, facts_of(self.subject)))]

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
        drafts = [
            PatchDraft(p, parameters, Drafter.HAND) for p, parameters in (*self.also, (self.pattern, self.parameters))
        ]
        exactness = Exactness.BOUNDED if self.pattern == "P56" else Exactness.EXACT
        drafts[-1] = PatchDraft(
            self.pattern, self.parameters, Drafter.HAND, exactness, 1e-2 if self.pattern == "P56" else None
        )
        return Candidate(self.context.family, self.profile, self.dtype, tuple(drafts))

    @property
    def echo(self) -> Candidate:
        """Nothing changed."""
        return Candidate(self.context.family, self.profile, self.dtype, ())


@cache
def facts_of(subject: str) -> Any:
    """What the diagnosis knows of a subject's structure."""
    return model_facts(stock_model(subject))


def _cause(kind: FailureKind, op: str, place: str = "block", **fields: Any) -> Failure:
    values = {
        "source": "modeling.py:1",
        "module": "encoder.layer.*",
        "message": "Spyre backend does not support: it",
        **fields,
    }
    return Failure(kind, op, place=place, **values)


MASK = ("P40", {"fill": "finfo_min_half"})
BUCKET = {"multiple": 64, "side": "right"}


def _tasks() -> tuple[ModelTask, ...]:
    bool_mask = _cause(_OP, "aten.bitwise_and.Tensor", "outside", dtypes=("bool", "bool"), module="")
    short = _cause(_WRONG, SDPA, scalars=("length",))
    border = _cause(_WRONG, "block border", scalars=("border",))
    views = _cause(_WRONG, SDPA, scalars=("layout",))
    sticks = _cause(_LAYOUT, "aten.view.default")
    heads = {"head_dim": 32, "padded_head_dim": 64}
    rows = [ModelTask("P20", s, sticks, heads) for s in ("bert", "roberta", "distilbert", "mpnet")]
    rows += [ModelTask("P54", s, views) for s in ("bert", "roberta")]
    rows += [ModelTask("P61", s, border) for s in ("bert", "distilbert")]
    rows += [ModelTask("P40", s, bool_mask, MASK[1]) for s in ("bert", "roberta")]
    rows += [ModelTask("P63", s, short, BUCKET, (MASK,)) for s in ("bert", "electra")]
    return tuple(rows)


MODEL_TASKS: tuple[ModelTask, ...] = _tasks()

__all__ = ["MODEL_TASKS", "SUBJECTS", "ModelTask", "facts_of"]
