"""The draft stage: from diagnoses to candidates, by the drafters the settings name."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agents.drafters import draft_with
from agents.drafters.rules import RulesDrafter
from agents.drafters.rules.written import rule_from
from agents.types import Diagnosis, DraftContext, Failure, FailureKind, diagnosis_from_dict
from pipeline.diagnosis.facts import model_facts
from pipeline.diagnosis.patterns import ROUNDED
from pipeline.diagnosis.service import diagnose_failures
from pipeline.drafting.endpoint import budgets, language_model
from pipeline.drafting.examples import StoredExamples
from pipeline.drafting.trials import candidate_tester, capture_validated, reproducer_runner
from pipeline.execution.execute import qualified_name
from pipeline.execution.inspect import describe_folder, family_name
from pipeline.execution.models import build_meta
from pipeline.execution.subject import Subject
from pipeline.inspection import inspect_checkpoint
from pipeline.review.drafting import StoredBudget, StoredTrajectories
from pipeline.review.told import INEXACT
from pipeline.settings import get_settings
from pipeline.work.sandbox_state import sandbox_refusal


def draft(subject: Subject, spec: dict[str, Any]) -> dict[str, Any]:
    """OUT of the stage: `candidates` and what is `left_over` with its reason."""
    added = of_rounding(subject, spec)
    diagnoses = [diagnosis_from_dict(d) for d in spec["diagnoses"]] + added
    family = family_name(inspect_checkpoint(subject.folder), describe_folder(subject.folder))
    drafters: Any = spec.get("drafters") or get_settings().drafters  # with `none` no stage drafts
    context = replace(draft_context(subject, spec, family), added=tuple(added))
    rules = RulesDrafter(added=[rule_from(rule) for rule in spec.get("rules") or ()])
    outcome = draft_with(drafters, diagnoses, context, language_model(rules), rules)
    left = [{"op": lo.diagnosis.failure.op, "reason": lo.reason} for lo in outcome.left_over]
    return {
        "outcome": "passed" if outcome.candidates else "failed",
        "reason": "; ".join([*outcome.notes, *(f"{lo['op']}: {lo['reason']}" for lo in left)]),
        "failures": [] if outcome.candidates else [asdict(d.failure) for d in diagnoses],
        "candidates": [c.to_dict() for c in outcome.candidates],
        "left_over": left,
    }


def of_rounding(subject: Subject, spec: dict[str, Any]) -> list[Diagnosis]:
    """What the gate adds to the diagnosis of a family of which a candidate was right and not exact enough: the model's
    rounding as a cause, with the patterns that compute the same with less of it."""
    if not inexact_of(spec):
        return []
    failure = Failure(FailureKind.WRONG_VALUES, ROUNDED[0], "", "model", INEXACT, scalars=ROUNDED[1:])
    return diagnose_failures([failure], model_facts(build_meta(subject.folder)))


def inexact_of(spec: dict[str, Any]) -> frozenset[str]:
    """The digests of the candidates that were right but for the size of their error."""
    return frozenset(digest for digest, told in (spec.get("rejected") or {}).items() if told == INEXACT)


def draft_context(subject: Subject, spec: dict[str, Any], family: str) -> DraftContext:
    """What the drafters may use: sandbox capture, an oracle test with seeds of its own, trajectory store and budget."""
    settings = get_settings()
    asks = settings.llm_model is not None and "data_dir" in spec  # a worker's stage that may run what a model writes
    refusal = sandbox_refusal(Path(spec["data_dir"])) if asks else None
    return DraftContext(
        family=family,
        profile=subject.profile,
        dtype="float16",
        rejected=dict(spec.get("rejected") or {}),
        inexact=inexact_of(spec),
        hidden_patterns=frozenset(spec.get("hidden_patterns") or ()),
        submissions_used=dict(spec.get("submissions_used") or {}),
        capture=None if refusal else capture_validated,
        no_capture=refusal or "",
        test=candidate_tester(subject),
        examples=StoredExamples(frozenset(spec.get("hidden_patterns") or ())) if asks else None,
        reproduce=reproducer_runner(subject.profile),
        config=json.loads((subject.folder / "config.json").read_text()) if asks else None,
        model_class=qualified_name(build_meta(subject.folder)) if asks else None,
        trajectories=StoredTrajectories(spec.get("run_id"), settings.llm_model or "none"),
        budget=StoredBudget(budgets(), spec.get("run_id")),
    )
