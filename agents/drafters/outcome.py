"""What drafting yields besides candidates: what is left over, patches drafted by a model, reports of drafts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agents.types import Candidate, Diagnosis, PatchDraft


@dataclass(frozen=True)
class LeftOver:
    """A cause that nobody cures yet, and why."""

    diagnosis: Diagnosis
    reason: str


@dataclass(frozen=True)
class DraftedPatch:
    """A patch that did not come from the rules, with the causes it is there for."""

    patch: PatchDraft
    diagnoses: tuple[Diagnosis, ...]


class DraftEnd(StrEnum):
    """How a model's draft ended. Stored text: add members, never rename."""

    PATCH = "patch"
    CANNOT_BE_PATCHED = "cannot_be_patched"
    NO_PATCH_NEEDED = "no_patch_needed"
    OFF = "off"
    NO_SANDBOX = "no_sandbox"
    LIMIT = "limit"
    BUDGET = "budget"
    ENDPOINT = "endpoint"
    OVERTAKEN = "overtaken"
    """Another draft of the same target, at the same time, had a patch first."""


@dataclass(frozen=True)
class DraftReport:
    """One draft of a language model: how it ended, its cost and where its steps are stored.

    `cost_usd` is None if the endpoint's price is unknown: what was reserved stays charged then.
    """

    module_class: str
    end: DraftEnd
    reason: str
    model: str | None = None
    trajectory: str | None = None
    turns: int = 0
    tokens: int = 0
    submissions: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True)
class DraftOutcome:
    """All results of one call of `draft_with`: candidates in order of preference, and what was not cured."""

    candidates: tuple[Candidate, ...] = ()
    left_over: tuple[LeftOver, ...] = ()
    notes: tuple[str, ...] = ()
    reports: tuple[DraftReport, ...] = ()
