"""Which drafter drafts what, by the setting DRAFTERS: `rules,llm`, `llm`, `both` or `rules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agents.drafters.llm import LlmDrafter
from agents.drafters.llm.drafter import ModuleDraft
from agents.drafters.llm.task import targets_of
from agents.drafters.outcome import DraftedPatch, DraftOutcome, DraftReport, LeftOver
from agents.drafters.rules import RulesDrafter
from agents.drafters.targets import DOCUMENT_PATTERN, module_class_of
from agents.errors import DraftingOff, SandboxUnavailable
from agents.types import Candidate, Diagnosis, DraftContext

Setting = Literal["rules,llm", "llm", "both", "rules"]


@dataclass
class _Draft:
    """One call of `draft_with` as it goes: what it has, and its result so far."""

    diagnoses: Sequence[Diagnosis]
    context: DraftContext
    rules: RulesDrafter
    llm: LlmDrafter | None
    candidates: list[Candidate] = field(default_factory=list)
    left: list[LeftOver] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reports: list[DraftReport] = field(default_factory=list)


def draft_with(
    setting: Setting,
    diagnoses: Sequence[Diagnosis],
    context: DraftContext,
    llm: LlmDrafter | None = None,
    rules: RulesDrafter | None = None,
) -> DraftOutcome:
    """The candidates that the setting's drafters make of the diagnoses, and every cause that stays uncured.

    `rules,llm`: the rules, and the model for element-wise causes that they leave. `llm`: the model for every
    element-wise cause, the rules for the others. `both`: a candidate of each (one, if they are the same). A model that
    is off, or has no sandbox, is a note: the rules go on.
    """
    draft = _Draft(diagnoses, context, rules or RulesDrafter(), llm)
    PLANS[setting](draft)
    unique = {candidate.digest: candidate for candidate in reversed(draft.candidates)}
    left = () if unique else tuple(draft.left)
    return DraftOutcome(tuple(reversed(unique.values())), left, tuple(draft.notes), tuple(draft.reports))


def compose(
    given: Sequence[DraftedPatch],
    diagnoses: Sequence[Diagnosis],
    context: DraftContext,
    rules: RulesDrafter | None = None,
) -> Candidate | None:
    """One candidate of the given patches and the rules' patches for all other causes.

    None if another cause has no cure or the candidate was rejected before.
    """
    return (rules or RulesDrafter()).compose(given, diagnoses, context)


def _rules_only(draft: _Draft) -> None:
    draft.left = draft.rules.leftovers(draft.diagnoses, draft.context.hidden_patterns, draft.context.profile)
    found = [] if draft.left else list(draft.rules.assemble(draft.diagnoses, draft.context))
    draft.candidates += found
    if not found and not draft.left:
        draft.notes.append("the rules have no candidate that was not refused before")


def _rules_then_llm(draft: _Draft) -> None:
    _rules_only(draft)
    if not draft.candidates:
        left = module_classes([item.diagnosis for item in draft.left])
        _llm_for(draft, left or module_classes(draft.diagnoses))


def _llm_first(draft: _Draft) -> None:
    targets = module_classes(draft.diagnoses)
    if not targets and not (draft.context.model_class and _left_by_rules(draft)):
        _rules_only(draft)
        return
    draft.left = draft.rules.leftovers(
        draft.diagnoses, draft.context.hidden_patterns | {DOCUMENT_PATTERN}, draft.context.profile
    )
    _llm_for(draft, targets)


def _left_by_rules(draft: _Draft) -> bool:
    return bool(draft.rules.leftovers(draft.diagnoses, draft.context.hidden_patterns, draft.context.profile))


def _both(draft: _Draft) -> None:
    _rules_only(draft)
    _llm_for(draft, module_classes(draft.diagnoses))


def module_classes(diagnoses: Sequence[Diagnosis]) -> frozenset[str]:
    """The element-wise module classes whose document could cure one of the diagnoses."""
    return frozenset(name for d in diagnoses if d.no_patch is None and (name := module_class_of(d)))


def _llm_for(draft: _Draft, classes: frozenset[str]) -> None:
    """Let the model draft for the target classes, and for the model what the rules leave of all other causes."""
    others = [d for d in draft.diagnoses if module_class_of(d) not in classes]
    beyond = draft.rules.leftovers(others, draft.context.hidden_patterns, draft.context.profile)
    wanted = [d for d in draft.diagnoses if module_class_of(d) in classes] + [item.diagnosis for item in beyond]
    targets = targets_of(wanted, draft.context)
    covered = [d for target in targets for d in target.causes]
    if not targets or any(item.diagnosis not in covered for item in beyond):
        draft.left = beyond or draft.left
        return
    if draft.llm is None:
        draft.notes.append("llm did not draft: it is not set up")
        return
    try:
        drafts = draft.llm.draft_modules(draft.diagnoses, draft.context, targets)
    except (DraftingOff, SandboxUnavailable) as refusal:
        draft.notes.append(f"llm did not draft: {refusal}")
        return
    _take(draft, drafts)


def _take(draft: _Draft, drafts: Sequence[ModuleDraft]) -> None:
    draft.reports += [report for d in drafts for report in (d.report, *d.others)]
    given = [d.drafted for d in drafts if d.drafted is not None]
    draft.notes += [f"llm: {d.report.end.value}: {d.report.reason}" for d in drafts if d.drafted is None]
    candidate = draft.rules.compose(given, draft.diagnoses, draft.context) if len(given) == len(drafts) else None
    draft.candidates += [candidate] if candidate is not None else []


PLANS: dict[str, Callable[[_Draft], None]] = {
    "rules": _rules_only,
    "rules,llm": _rules_then_llm,
    "llm": _llm_first,
    "both": _both,
}
