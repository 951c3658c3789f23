"""Which patterns the rules can use for each cause, with their parameters complete, and which causes have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from agents.drafters.outcome import LeftOver
from agents.drafters.rules.documents import DocumentDraft, DocumentRules
from agents.drafters.rules.forms import forms_for
from agents.drafters.rules.patterns import PATTERNS
from agents.drafters.targets import DOCUMENT_PATTERN, module_class_of
from agents.types import Diagnosis, Failure, FailureKind, PatternUse


@dataclass
class Options:
    """Causes with their usable patterns, causes without any, and the documents drafted on the way by module class."""

    usable: list[tuple[Diagnosis, tuple[PatternUse, ...]]] = field(default_factory=list)
    left: list[LeftOver] = field(default_factory=list)
    documents: dict[str, DocumentDraft] = field(default_factory=dict)


def find_options(
    diagnoses: Sequence[Diagnosis], hidden: frozenset[str], rules: DocumentRules, profile: str | None = None
) -> Options:
    """The options of every cause that needs a patch.

    A cause that only follows from an earlier one (`after`) and names no usable pattern is cured with that one. Wrong
    values of which the diagnosis says that they cannot be patched are left over with its reason.
    """
    options = Options()
    if DOCUMENT_PATTERN not in hidden:
        options.documents = dict(_documents(diagnoses, rules, profile))
    for diagnosis in diagnoses:
        if diagnosis.no_patch is not None:
            options.left += [LeftOver(diagnosis, diagnosis.no_patch)] if is_wrong(diagnosis) else []
            continue
        answers = [
            _option(use, diagnosis, hidden, options.documents, partial(rules.why_not, profile=profile))
            for use in diagnosis.patterns
        ]
        uses = tuple(answer for answer in answers if isinstance(answer, PatternUse))
        uses = uses or _by_form(diagnosis, hidden, profile)
        if uses:
            options.usable.append((diagnosis, uses))
        elif not diagnosis.failure.after:
            reasons = [answer for answer in answers if isinstance(answer, str)]
            options.left.append(LeftOver(diagnosis, "; ".join(reasons) or "the diagnosis names no pattern"))
    return options


def is_wrong(diagnosis: Diagnosis) -> bool:
    """Whether the device's values are wrong: without a patch for that no other patch is of use."""
    return diagnosis.failure.kind in (FailureKind.WRONG_VALUES, FailureKind.NON_FINITE)


def _by_form(diagnosis: Diagnosis, hidden: frozenset[str], profile: str | None) -> tuple[PatternUse, ...]:
    """What the rules for whole rows find where the diagnosis names no usable pattern."""
    if profile is None or needs_document(diagnosis) or diagnosis.failure.after:
        return ()
    return tuple(use for use in forms_for(diagnosis.failure, profile) if use.pattern not in hidden)


def _documents(
    diagnoses: Sequence[Diagnosis], rules: DocumentRules, profile: str | None
) -> Iterator[tuple[str, DocumentDraft]]:
    """One document per module class, for all of its causes that the rewrite rules cure."""
    names = dict.fromkeys(name for d in diagnoses if needs_document(d) and (name := module_class_of(d)))
    for name in names:
        own = [d.failure for d in diagnoses if needs_document(d) and module_class_of(d) == name]
        cured = [failure for failure in own if rules.why_not(name, failure, profile) is None]
        if cured:
            yield name, rules.draft(name, cured, profile)


def needs_document(diagnosis: Diagnosis) -> bool:
    """Whether a document could cure the cause, and the diagnosis does not bring one."""
    drafted = [use for use in diagnosis.patterns if use.pattern == DOCUMENT_PATTERN]
    return diagnosis.no_patch is None and any("document" not in use.parameters for use in drafted)


def complete(use: PatternUse) -> PatternUse | str:
    """The use with the pattern's defaults filled in, or which parameters it lacks."""
    row = PATTERNS[use.pattern]
    parameters = {**row.defaults, **use.parameters}
    if missing := sorted(set(row.parameters) - set(parameters)):
        return f"{use.pattern} lacks {', '.join(missing)}"
    return PatternUse(use.pattern, parameters)


def _option(
    use: PatternUse,
    diagnosis: Diagnosis,
    hidden: frozenset[str],
    documents: dict[str, DocumentDraft],
    why_not: Callable[[str, Failure], str | None],
) -> PatternUse | str:
    """The use with all its parameters, or why it cannot be used."""
    if use.pattern in hidden:
        return f"{use.pattern} is hidden from the rules"
    if use.pattern not in PATTERNS:
        return f"{use.pattern} is not in the rules' pattern table"
    if use.pattern != DOCUMENT_PATTERN or "document" in use.parameters:
        return complete(use)
    name = module_class_of(diagnosis)
    if name is None:
        return f"the diagnosis of {diagnosis.failure.op} names no module class"
    if (reason := why_not(name, diagnosis.failure)) is not None:
        return reason
    return PatternUse(DOCUMENT_PATTERN, {"module_class": name, "document": documents[name].document})
