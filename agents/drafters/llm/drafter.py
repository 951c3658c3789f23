"""The `llm` drafter: a coding agent drafts a document for each element-wise module class that has causes left.

Off until an endpoint and a daily budget are set. Without a working sandbox it refuses and says so. Its candidates hold
the rules' patches for every other cause, and state what a scripted model drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from agents.drafters.llm.agent import Agent
from agents.drafters.llm.model import ChatModel
from agents.drafters.llm.settings import LlmSettings
from agents.drafters.llm.text import as_data, cut, render
from agents.drafters.llm.tools import Claim, Result, Workbench
from agents.drafters.outcome import DraftedPatch, DraftEnd, DraftReport
from agents.drafters.rules import RulesDrafter
from agents.drafters.rules.drafter import with_cures
from agents.drafters.targets import DOCUMENT_PATTERN, module_class_of
from agents.errors import (
    AgentError,
    BudgetExhausted,
    CandidateRefused,
    DraftingOff,
    EndpointProblem,
    LimitReached,
    SandboxUnavailable,
)
from agents.types import Candidate, Diagnosis, DraftContext, Drafter, PatchDraft, SandboxRunner

Reproduce = Callable[[Sequence[Diagnosis]], dict[str, Any]]

ENDS: dict[type[AgentError], DraftEnd] = {
    LimitReached: DraftEnd.LIMIT,
    BudgetExhausted: DraftEnd.BUDGET,
    EndpointProblem: DraftEnd.ENDPOINT,
    SandboxUnavailable: DraftEnd.NO_SANDBOX,
}


@dataclass(frozen=True)
class ModuleDraft:
    """What one agent did for one module class: its report, and the patch if one was accepted."""

    report: DraftReport
    drafted: DraftedPatch | None = None


class LlmDrafter:
    """Drafts with the model of `settings`; the other causes of a candidate come from `rules`.

    `reproduce` runs the reproducer of a module's causes on the device; without it the agent has no such tool.
    """

    def __init__(
        self, settings: LlmSettings, rules: RulesDrafter | None = None, reproduce: Reproduce | None = None
    ) -> None:
        self.settings, self._rules, self._reproduce = settings, rules or RulesDrafter(), reproduce
        self.reports: list[DraftReport] = []

    def draft(self, diagnoses: Sequence[Diagnosis], context: DraftContext) -> Iterator[Candidate]:
        """One candidate with a drafted document for every module class that has one; nothing if a draft fails.

        `reports` says how each draft ended. Raises DraftingOff or SandboxUnavailable before any call is made.
        """
        drafts = self.draft_modules(diagnoses, context)
        given = [draft.drafted for draft in drafts if draft.drafted is not None]
        candidate = self._rules.compose(given, diagnoses, context) if given and len(given) == len(drafts) else None
        if candidate is not None:
            yield candidate

    def draft_modules(
        self, diagnoses: Sequence[Diagnosis], context: DraftContext, only: frozenset[str] | None = None
    ) -> list[ModuleDraft]:
        """One draft per element-wise module class among the causes (or `only` those), in order of appearance."""
        self.require_on(context)
        named = [name for d in diagnoses if d.no_patch is None and (name := module_class_of(d))]
        names = [name for name in dict.fromkeys(named) if only is None or name in only]
        drafts = [self._draft_module(name, diagnoses, context) for name in names]
        self.reports += [draft.report for draft in drafts]
        return drafts

    def require_on(self, context: DraftContext) -> None:
        """Raises DraftingOff or SandboxUnavailable with the remedy if drafting cannot start."""
        if (reason := self.settings.why_off()) is not None:
            raise DraftingOff(reason)
        if context.budget is None or context.record is None:
            raise DraftingOff(
                "no budget ledger or no trajectory store: nothing is drafted that cannot be accounted for"
            )
        if context.capture is None:
            why = context.no_capture or "see `spyre-factory sandbox selftest`"
            raise SandboxUnavailable(f"no working sandbox: nothing a model writes is run; {why}")

    def _draft_module(self, name: str, diagnoses: Sequence[Diagnosis], context: DraftContext) -> ModuleDraft:
        causes = tuple(d for d in diagnoses if d.no_patch is None and module_class_of(d) == name)
        try:
            model = ChatModel(self.settings, context.budget)
        except EndpointProblem as error:
            return ModuleDraft(DraftReport(name, DraftEnd.ENDPOINT, str(error)))
        try:
            return self._run(model, name, causes, diagnoses, context)
        finally:
            model.close()

    def _run(
        self,
        model: ChatModel,
        name: str,
        causes: tuple[Diagnosis, ...],
        diagnoses: Sequence[Diagnosis],
        context: DraftContext,
    ) -> ModuleDraft:
        build = self._builder(model.name, name, causes, diagnoses, context)
        bench = self._bench(name, causes, context, build)
        assert context.record is not None
        agent = Agent(model, bench, context.record, self.settings.limits)
        try:
            result = agent.run(task_text(name, causes, context))
        except AgentError as error:
            end = next((end for kind, end in ENDS.items() if isinstance(error, kind)), DraftEnd.LIMIT)
            return ModuleDraft(_report(agent, name, end, str(error)))
        report = _report(agent, name, result.end or DraftEnd.LIMIT, result.text)
        return ModuleDraft(report, _drafted(result, name, causes, agent.trajectory))

    def _bench(
        self,
        name: str,
        causes: tuple[Diagnosis, ...],
        context: DraftContext,
        build: Callable[[dict[str, Any], Claim], Candidate],
    ) -> Workbench:
        assert context.capture is not None
        reproduce, given = self._reproduce, None
        if reproduce is not None:
            given = lambda: reproduce(causes)  # noqa: E731 - binds the causes of this draft
        return Workbench(
            target={"module_class": name},
            diagnosis=render("diagnosis", causes=causes),
            capture=captured(context.capture),
            validate=validate_document,
            build=build,
            test=context.test,
            limits=self.settings.limits,
            reproduce=given,
            submissions=context.submissions_used.get(name, 0),
        )

    def _builder(
        self,
        model: str,
        name: str,
        causes: tuple[Diagnosis, ...],
        diagnoses: Sequence[Diagnosis],
        context: DraftContext,
    ) -> Callable[[dict[str, Any], Claim], Candidate]:
        """Makes the candidate a document would give, with the rules' patches for the other causes."""

        def build(document: dict[str, Any], claim: Claim) -> Candidate:
            drafted = DraftedPatch(patch_of(model, name, document, claim), causes)
            fresh = replace(context, rejected={})
            candidate = next(self._rules.assemble(diagnoses, fresh, [drafted]), None)
            if candidate is None:
                raise CandidateRefused("the other causes of this checkpoint cannot be cured together")
            if candidate.digest in context.rejected:
                raise CandidateRefused(f"the same patch was refused before: {context.rejected[candidate.digest]}")
            return candidate

        return build


def patch_of(model: str, module_class: str, document: dict[str, Any], claim: Claim) -> PatchDraft:
    """The patch of a drafted document. What the model says about it is kept as its claim, not as a proof."""
    said = (f"claim of {model}, not a proof: {cut(claim.explanation, 2000)}",) if claim.explanation else ()
    parameters = {"module_class": module_class, "document": document}
    return PatchDraft(DOCUMENT_PATTERN, parameters, Drafter.LLM, claim.exactness, claim.bound, proof=said, model=model)


def task_text(module_class: str, causes: Sequence[Diagnosis], context: DraftContext) -> str:
    """The first message to the model: the diagnosis as data, and why earlier candidates were refused."""
    refused = [as_data(reason, "earlier refusal", 500) for reason in dict.fromkeys(context.rejected.values())]
    return render(
        "task",
        module_class=module_class,
        profile=context.profile,
        dtype=context.dtype,
        diagnosis=as_data(render("diagnosis", causes=causes), "diagnosis"),
        rejected=refused,
    )


def validate_document(document: dict[str, Any]) -> None:
    """Raises CandidateRefused with the validator's reason unless the document keeps every rule."""
    from adapters.document import validate

    with document_refusals():
        validate(document)


def captured(capture: SandboxRunner) -> SandboxRunner:
    """The capture; a document it refuses itself is a refusal like any other."""

    def run(code: str, target: dict[str, Any]) -> dict[str, Any]:
        with document_refusals():
            return capture(code, target)

    return run


@contextmanager
def document_refusals() -> Iterator[None]:
    """Turns the validator's refusal into one that goes back to the model."""
    from adapters.errors import DocumentRefused

    try:
        yield
    except DocumentRefused as error:
        raise CandidateRefused(f"the captured document is refused: {error}") from error


def _drafted(result: Result, name: str, causes: tuple[Diagnosis, ...], trajectory: str | None) -> DraftedPatch | None:
    if result.candidate is None:
        return None
    own = [p for p in result.candidate.patches if p.parameters.get("module_class") == name and p.model is not None]
    return DraftedPatch(with_cures(DraftedPatch(replace(own[0], trajectory=trajectory), causes)), causes)


def _report(agent: Agent, name: str, end: DraftEnd, reason: str) -> DraftReport:
    spent, bench = agent.spent, agent.bench
    return DraftReport(
        module_class=name,
        end=end,
        reason=reason,
        model=agent.model.name,
        trajectory=agent.trajectory,
        turns=spent.turns,
        tokens=spent.tokens,
        submissions=bench.submissions,
        cost_usd=spent.cost_usd,
    )
