"""The `rules` drafter: from diagnoses to one candidate, by data alone. It runs no drafted code and needs no key.

A cause without a cure is reported, never dropped: then there is no candidate from the rules alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agents.drafters.outcome import DraftedPatch, LeftOver
from agents.drafters.rules.derivations import proof_of
from agents.drafters.rules.documents import CaptureStock, DocumentDraft, DocumentRules, capture_stock
from agents.drafters.rules.merge import instance_key
from agents.drafters.rules.options import Options, find_options
from agents.drafters.rules.patterns import ORDER, PATTERNS
from agents.drafters.rules.rule import Rule
from agents.drafters.rules.select import Selected, conflict_of, group, grown_selections, selections
from agents.types import Candidate, Diagnosis, DraftContext, Drafter, PatchDraft, PatternUse

LAST = 1_000
"""The place of drafted code in a set: after every pattern of the library."""


class RulesDrafter:
    """Deterministic: the same diagnoses, context, stock modules and `added` rules give the same candidate."""

    def __init__(self, capture: CaptureStock = capture_stock, added: Sequence[Rule] = ()) -> None:
        self._documents = DocumentRules(capture, added)

    def draft(self, diagnoses: Sequence[Diagnosis], context: DraftContext) -> Iterator[Candidate]:
        """The smallest candidate that cures every cause and was not rejected before; nothing if a cause is left."""
        if not self.leftovers(diagnoses, context.hidden_patterns, context.profile):
            yield from self.assemble(diagnoses, context)

    def leftovers(
        self, diagnoses: Sequence[Diagnosis], hidden: frozenset[str] = frozenset(), profile: str | None = None
    ) -> list[LeftOver]:
        """The causes that these rules do not cure, each with the reason: what another drafter must do."""
        options = find_options(diagnoses, hidden, self._documents, profile)
        causes = group(options.usable)
        conflict = conflict_of(causes)
        if conflict is None or next(selections(causes), None) is not None:
            return options.left
        pattern = conflict.split(":")[0]
        asking = [d for d, uses in options.usable if pattern in {use.pattern for use in uses}]
        return options.left + [LeftOver(diagnosis, conflict) for diagnosis in asking]

    def compose(
        self, given: Sequence[DraftedPatch], diagnoses: Sequence[Diagnosis], context: DraftContext
    ) -> Candidate | None:
        """The given patches with the rules' patches for all other causes; None if one of those has no cure."""
        covered = [diagnosis for drafted in given for diagnosis in drafted.diagnoses]
        if self.leftovers([d for d in diagnoses if d not in covered], context.hidden_patterns, context.profile):
            return None
        return next(self.assemble(diagnoses, context, given), None)

    def assemble(
        self, diagnoses: Sequence[Diagnosis], context: DraftContext, given: Sequence[DraftedPatch] = ()
    ) -> Iterator[Candidate]:
        """At most one candidate: the `given` patches, and the rules' for every other cause that has a cure.

        Causes without any cure are not looked at: callers ask `leftovers` first.
        """
        covered = [diagnosis for drafted in given for diagnosis in drafted.diagnoses]
        rest = [diagnosis for diagnosis in diagnoses if diagnosis not in covered]
        options = find_options(rest, context.hidden_patterns, self._documents, context.profile)
        for base, candidate in _grown(options, context, [with_cures(drafted) for drafted in given]):
            if candidate.patches and not _is_refused(base, candidate, context):
                yield candidate
                return


def _grown(
    options: Options, context: DraftContext, others: Sequence[PatchDraft]
) -> Iterator[tuple[Candidate, Candidate]]:
    """Each set for the causes of the diagnosis, and what it becomes with patches for those that the gate added."""
    own = [usable for usable in options.usable if usable[0] not in context.added]
    added = [usable for usable in options.usable if usable[0] in context.added]
    for pair in grown_selections(group(own), group(added)):
        sets = [[_patch(chosen, options.documents) for chosen in selection] for selection in pair]
        base, whole = (_candidate(context, [*patches, *others]) for patches in sets)
        yield base, whole


def _is_refused(base: Candidate, candidate: Candidate, context: DraftContext) -> bool:
    """Whether the candidate was refused, or what it was before the gate added causes, for more than its error."""
    return candidate.digest in context.rejected or base.digest in context.rejected.keys() - context.inexact


def _patch(selected: Selected, documents: dict[str, DocumentDraft]) -> PatchDraft:
    use, row = selected.use, PATTERNS[selected.use.pattern]
    patch = PatchDraft(
        use.pattern,
        dict(use.parameters),
        Drafter.RULES,
        exactness=row.exactness,
        bound=row.bound,
        proof=proof_of(use.pattern, use.parameters),
        cures=cure_texts(use, selected.diagnoses),
    )
    draft = documents.get(str(use.parameters.get("module_class")))
    if draft is None or draft.document != use.parameters.get("document"):
        return patch
    return replace(patch, exactness=draft.exactness, bound=draft.bound, proof=draft.proof)


def cure_texts(use: PatternUse, diagnoses: Sequence[Diagnosis]) -> tuple[str, ...]:
    """One line per cause: what the patch does and which failure that cures."""
    text = PATTERNS[use.pattern].text.format_map(use.parameters)
    if not diagnoses:
        asking = [row.id for row in PATTERNS.values() if use.pattern in {need.pattern for need in row.needs}]
        return (f"{text}: needed by {', '.join(asking)}",)
    causes = [f"{d.failure.kind.value} of {d.failure.op} at {d.failure.source}" for d in diagnoses]
    return tuple(f"{text}: cures {cause}" for cause in dict.fromkeys(causes))


def with_cures(drafted: DraftedPatch) -> PatchDraft:
    """The drafted patch with the text of what it cures."""
    use = PatternUse(drafted.patch.pattern, drafted.patch.parameters)
    if use.pattern not in PATTERNS:
        causes = [f"{d.failure.kind.value} of {d.failure.op} at {d.failure.source}" for d in drafted.diagnoses]
        return replace(drafted.patch, cures=tuple(f"drafted code: cures {cause}" for cause in dict.fromkeys(causes)))
    return replace(drafted.patch, cures=cure_texts(use, drafted.diagnoses))


def _candidate(context: DraftContext, patches: Sequence[PatchDraft]) -> Candidate:
    ordered = sorted(patches, key=_place)
    dtype = next((p.parameters["dtype"] for p in ordered if p.pattern == "P56"), context.dtype)
    return Candidate(context.family, context.profile, dtype, tuple(ordered))


def _place(patch: PatchDraft) -> tuple[int, tuple[str, str]]:
    """Where a patch stands in its set; drafted code comes last."""
    if patch.pattern not in ORDER:
        return LAST, (patch.pattern, "")
    return ORDER[patch.pattern], instance_key(PatternUse(patch.pattern, patch.parameters))
