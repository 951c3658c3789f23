"""The `llm` drafter: coding agents draft patches for element-wise module classes, and for the model.

Off until an endpoint and a daily budget are set. Without a working sandbox it refuses and says so. Its candidates hold
the rules' patches for every other cause, and state what a scripted model drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from agents.drafters.llm.agent import Agent
from agents.drafters.llm.form import Form
from agents.drafters.llm.library import search_library
from agents.drafters.llm.model import ChatModel
from agents.drafters.llm.reviewer import advise
from agents.drafters.llm.settings import LlmSettings
from agents.drafters.llm.task import Target, room_for_task, targets_of, task_text
from agents.drafters.llm.text import cut, prompt_digest
from agents.drafters.llm.workbench import Build, Claim, Result, Shared, Workbench
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
    Overtaken,
    SandboxUnavailable,
)
from agents.types import Candidate, Diagnosis, DraftContext, Drafter, PatchDraft, SandboxRunner

CODE_PATTERN = "code"
"""The pattern of drafted code that changes a model (`agents.capture.apply`)."""

ENDS: dict[type[AgentError], DraftEnd] = {
    LimitReached: DraftEnd.LIMIT,
    BudgetExhausted: DraftEnd.BUDGET,
    EndpointProblem: DraftEnd.ENDPOINT,
    SandboxUnavailable: DraftEnd.NO_SANDBOX,
    Overtaken: DraftEnd.OVERTAKEN,
}


@dataclass(frozen=True)
class ModuleDraft:
    """What the agents did for one target: their reports, that of the best first, and the patch if one was accepted."""

    report: DraftReport
    drafted: DraftedPatch | None = None
    others: tuple[DraftReport, ...] = ()


class LlmDrafter:
    """Drafts with the model of `settings`; the other causes of a candidate come from `rules`."""

    def __init__(self, settings: LlmSettings, rules: RulesDrafter | None = None) -> None:
        self.settings, self._rules = settings, rules or RulesDrafter()
        self.reports: list[DraftReport] = []

    def draft(self, diagnoses: Sequence[Diagnosis], context: DraftContext) -> Iterator[Candidate]:
        """One candidate with a drafted patch for every target; nothing if the draft of one fails.

        `reports` says how each draft ended. Raises DraftingOff or SandboxUnavailable before any call is made.
        """
        elementwise = [d for d in diagnoses if module_class_of(d)]
        rest = [d for d in diagnoses if d not in elementwise]
        left = [lo.diagnosis for lo in self._rules.leftovers(rest, context.hidden_patterns, context.profile)]
        drafts = self.draft_modules(diagnoses, context, targets_of([*elementwise, *left], context))
        given = [draft.drafted for draft in drafts if draft.drafted is not None]
        candidate = self._rules.compose(given, diagnoses, context) if given and len(given) == len(drafts) else None
        if candidate is not None:
            yield candidate

    def draft_modules(
        self, diagnoses: Sequence[Diagnosis], context: DraftContext, only: Sequence[Target] | None = None
    ) -> list[ModuleDraft]:
        """One draft per target of the causes (or of `only` those), in order."""
        self.require_on(context)
        targets = targets_of(diagnoses, context) if only is None else only
        drafts = [self._draft_target(target, diagnoses, context) for target in targets]
        self.reports += [report for draft in drafts for report in (*draft.others, draft.report)]
        return drafts

    def require_on(self, context: DraftContext) -> None:
        """Raises DraftingOff or SandboxUnavailable with the remedy if drafting cannot start."""
        if (reason := self.settings.why_off()) is not None:
            raise DraftingOff(reason)
        if context.budget is None or context.trajectories is None:
            raise DraftingOff(
                "no budget ledger or no trajectory store: nothing is drafted that cannot be accounted for"
            )
        if context.capture is None:
            why = context.no_capture or "see `spyre-factory sandbox selftest`"
            raise SandboxUnavailable(f"no working sandbox: nothing a model writes is run; {why}")

    def _draft_target(self, target: Target, diagnoses: Sequence[Diagnosis], context: DraftContext) -> ModuleDraft:
        """Drafts at the same time; the first patch ends the others before their next call."""
        shared = Shared(self.settings.limits, context.submissions_used.get(target.name, 0))
        count = max(1, self.settings.parallel)
        one = partial(self._draft_one, target, diagnoses, context, shared)
        if count == 1:
            return one(1)
        with ThreadPoolExecutor(count) as pool:
            done = list(pool.map(one, range(1, count + 1)))
        best = next((d for d in done if d.drafted is not None), done[0])
        return replace(best, others=tuple(d.report for d in done if d is not best))

    def _draft_one(
        self, target: Target, diagnoses: Sequence[Diagnosis], context: DraftContext, shared: Shared, number: int
    ) -> ModuleDraft:
        try:
            model = ChatModel(self.settings, context.budget)
        except EndpointProblem as error:
            return ModuleDraft(DraftReport(target.name, DraftEnd.ENDPOINT, str(error)))
        try:
            return self._run(model, target, diagnoses, context, shared, number)
        finally:
            model.close()

    def _run(
        self,
        model: ChatModel,
        target: Target,
        diagnoses: Sequence[Diagnosis],
        context: DraftContext,
        shared: Shared,
        number: int,
    ) -> ModuleDraft:
        bench = self.workbench(target, diagnoses, context, model.name, shared)
        assert context.trajectories is not None
        place = f"{target.name}#{number}"
        agent = Agent(model, bench, context.trajectories(place), self.settings.limits, facts=_facts(target, context))
        agent.facts |= {"place": place, "protocol": model.protocol}
        task = task_text(target, context, number, self.settings.parallel, room_for_task(bench))
        try:
            result = agent.run(task)
        except AgentError as error:
            end = next((end for kind, end in ENDS.items() if isinstance(error, kind)), DraftEnd.LIMIT)
            return ModuleDraft(_report(agent, target.name, end, str(error)))
        report = _report(agent, target.name, result.end or DraftEnd.LIMIT, result.text)
        with shared.one_at_a_time:
            drafted = _drafted(result, target, agent.trajectory)
        if drafted is None or shared.won.is_set():
            return ModuleDraft(report, drafted)
        shared.won.set()
        return ModuleDraft(report, self._advised(drafted, model, target, result.code, context, place))

    def _advised(
        self, drafted: DraftedPatch, model: ChatModel, target: Target, code: str, context: DraftContext, place: str
    ) -> DraftedPatch:
        if not self.settings.reviewer:
            return drafted
        assert context.trajectories is not None
        advice = advise(model, target, code, context, context.trajectories(f"{place}/review"))
        return replace(drafted, patch=replace(drafted.patch, advice=advice))

    def workbench(
        self, target: Target, diagnoses: Sequence[Diagnosis], context: DraftContext, model: str, shared: Shared
    ) -> Workbench:
        """The tools of one agent: `model` is named in the patches that they make."""
        reproduce = context.reproduce
        build = self._builder(model, target, diagnoses, context)
        return Workbench(
            target=target.name,
            form=target.form,
            diagnosis=target.diagnosis,
            build=build,
            test=context.test,
            limits=self.settings.limits,
            reproduce=None if reproduce is None else partial(reproduce, target.causes),
            library=partial(search_library, hidden=context.hidden_patterns),
            source=target.source,
            shared=shared,
        )

    def _builder(self, model: str, target: Target, diagnoses: Sequence[Diagnosis], context: DraftContext) -> Build:
        """Makes the candidate that code would give, with the rules' patches for the other causes."""
        assert context.capture is not None
        patch_of = _PATCHES[target.form]
        capture = captured(context.capture)

        def build(code: str, claim: Claim) -> Candidate:
            drafted = DraftedPatch(patch_of(model, target.name, code, claim, capture), target.causes)
            candidate = next(self._rules.assemble(diagnoses, context, [drafted]), None)
            if candidate is None:
                raise CandidateRefused(self._why_none(drafted, diagnoses, context))
            return candidate

        return build

    def _why_none(self, drafted: DraftedPatch, diagnoses: Sequence[Diagnosis], context: DraftContext) -> str:
        """Why no set holds the drafted patch: it was refused in every one, or there is none."""
        fresh = replace(context, rejected={})
        candidate = next(self._rules.assemble(diagnoses, fresh, [drafted]), None)
        if candidate is None:
            return "the other causes of this checkpoint cannot be cured together"
        told = context.rejected.get(candidate.digest)
        return "the same patch was refused before" + (f": {told}" if told else "")


def _facts(target: Target, context: DraftContext) -> dict[str, Any]:
    """What a stored conversation says about itself: enough to run its tool calls again without the model."""
    task = {
        "target": target.name,
        "form": target.form.value,
        "family": context.family,
        "profile": context.profile,
        "dtype": context.dtype,
        "hidden_patterns": sorted(context.hidden_patterns),
        "diagnoses": [asdict(d) for d in target.causes],
    }
    return {"prompts": prompt_digest(), "task": task, "config": context.config}


def document_patch(model: str, target: str, code: str, claim: Claim, capture: SandboxRunner) -> PatchDraft:
    """The patch of an element-wise module: its code captured in the sandbox, as a document."""
    document = capture(code, {"module_class": target})
    validate_document(document)
    return drafted_patch(model, DOCUMENT_PATTERN, {"module_class": target, "document": document}, code, claim)


def code_patch(model: str, target: str, code: str, claim: Claim, capture: SandboxRunner) -> PatchDraft:
    """The patch of a model: the code itself, which is applied in the sandbox only; its test captures it there."""
    return drafted_patch(model, CODE_PATTERN, {"source": code}, code, claim)


def drafted_patch(model: str, pattern: str, parameters: dict[str, Any], code: str, claim: Claim) -> PatchDraft:
    """A drafted patch. What the model says about it is kept as its claim, not as a proof."""
    said = (f"claim of {model}, not a proof: {cut(claim.explanation, 2000)}",) if claim.explanation else ()
    return PatchDraft(
        pattern, parameters, Drafter.LLM, claim.exactness, claim.bound, proof=said, model=model, source=code
    )


_PATCHES: dict[Form, Callable[..., PatchDraft]] = {Form.ELEMENTWISE: document_patch, Form.MODEL: code_patch}


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


def _drafted(result: Result, target: Target, trajectory: str | None) -> DraftedPatch | None:
    if result.candidate is None:
        return None
    own = [p for p in result.candidate.patches if p.model is not None and p.source == result.code]
    patch = replace(own[0], trajectory=trajectory)
    if target.form is Form.ELEMENTWISE:
        from agents.drafters.generalise import generalised  # needs torch, as nothing else here does

        found = generalised(target.name, patch.parameters["document"], target.stock_document)
        patch = replace(patch, generalised=found)
    return DraftedPatch(with_cures(DraftedPatch(patch, target.causes)), target.causes)


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
