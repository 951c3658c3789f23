"""What the `llm` drafter needs, each as one check, and what its endpoint can do: protocol and context.

Trial calls are paid like any other: from the ledger that is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from agents.drafters.llm.budget import BudgetLedger, MemoryLedger
from agents.drafters.llm.messages import read_calls
from agents.drafters.llm.model import ChatModel, connect, list_entries
from agents.drafters.llm.settings import SCRIPTED_MODEL, LlmSettings, price_of
from agents.drafters.llm.text import render
from agents.drafters.llm.tools import SHOW_DIAGNOSIS
from agents.errors import AgentError, BudgetExhausted, EndpointProblem, MalformedAnswer, SandboxUnavailable
from agents.redact import redactor_of

TRIAL_SECONDS = 60.0
USEFUL_CONTEXT = 16_000
"""Tokens: the opening (6,000), one answer (4,000) and a few tools' answers. Less is not worth a draft."""

CODE_WORD = "kingfisher-4711"
FILLER = "The quick brown fox jumps over the lazy dog and runs along the river. "
FILLER_BYTES = 4 * (USEFUL_CONTEXT - 4_000)
CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx")
"""Where servers that say it list a model's context: vLLM the first, hosted ones the next, llama.cpp in `meta`."""


class Check(NamedTuple):
    """One thing the drafter needs: there, missing, or (None) not known; and what was seen or what to do."""

    name: str
    passed: bool | None
    detail: str


@dataclass
class Examination:
    """All checks, and what drafting needs to know of the endpoint; None is not known."""

    checks: list[Check] = field(default_factory=list)
    model: str | None = None
    protocol: str | None = None
    context_tokens: int | None = None

    @property
    def failed(self) -> int:
        """Checks that keep the drafter from drafting."""
        return sum(check.passed is False for check in self.checks)


def examine(settings: LlmSettings, sandbox: Callable[[], None], ledger: BudgetLedger | None = None) -> Examination:
    """Every check that makes sense; after a failed one the checks that need it are left out.

    `sandbox` raises SandboxUnavailable. Without a `ledger` the trial calls are within the daily budget's amount only.
    """
    found = Examination()
    found.checks += _endpoint_checks(settings, found, ledger or MemoryLedger(settings.daily_budget_usd))
    found.checks.append(_sandbox_check(sandbox))
    return found


def _endpoint_checks(settings: LlmSettings, found: Examination, ledger: BudgetLedger) -> Iterator[Check]:
    address = redactor_of(settings.api_key, settings.base_url).text(settings.base_url or str(settings.why_off()))
    yield Check("endpoint set", settings.base_url is not None, address)
    budget = f"{settings.daily_budget_usd:.2f} USD per day"
    yield Check(
        "daily budget set", settings.daily_budget_usd > 0, budget if settings.daily_budget_usd > 0 else NO_BUDGET
    )
    if settings.base_url is None:
        return
    try:
        client = connect(settings)
        listed = list_entries(client)
        client.close()
    except EndpointProblem as error:
        yield Check("endpoint answers", False, str(error))
        return
    yield Check("endpoint answers", True, f"models listed: {len(listed)}")
    yield from _model_checks(settings, listed, found, ledger)


NO_BUDGET = "set SPYRE_FACTORY_LLM_DAILY_BUDGET_USD above 0"


def _model_checks(
    settings: LlmSettings, listed: dict[str, dict[str, Any]], found: Examination, ledger: BudgetLedger
) -> Iterator[Check]:
    found.model = settings.model or (next(iter(listed)) if len(listed) == 1 else None)
    if found.model is None or found.model not in listed:
        yield Check("model listed", False, f"set SPYRE_FACTORY_LLM_MODEL to one of {', '.join(list(listed)[:10])}")
        return
    yield Check("model listed", True, found.model)
    yield _price(found.model, settings)
    if settings.daily_budget_usd <= 0:
        return
    yield _protocol(settings, found, ledger)
    found.context_tokens = listed_context(listed[found.model])
    if found.context_tokens is not None:
        yield _enough(found.context_tokens)
    elif found.protocol is not None:
        yield _probe_context(settings, ledger)


def _price(model: str, settings: LlmSettings) -> Check:
    price = price_of(model, settings)
    if model == SCRIPTED_MODEL:
        return Check("price known", True, "0: a script, not a language model; its candidates count in no figure")
    if price is None:
        said = "set SPYRE_FACTORY_LLM_PRICE; until then each call stays charged with what was reserved for it"
        return Check("price known", None, said)
    return Check("price known", True, f"{price.prompt} and {price.completion} USD per million tokens")


def _protocol(settings: LlmSettings, found: Examination, ledger: BudgetLedger) -> Check:
    """Tool calls if they work, else fenced text. A protocol that is set is the only one tried."""
    said = "no answer"
    for protocol in ("tools", "text") if settings.protocol == "auto" else (settings.protocol,):
        try:
            found.protocol = _trial(replace(settings, protocol=protocol), ledger)
        except MalformedAnswer as error:
            said = f"the answer to a trial call could not be used: {error}"
        except (EndpointProblem, BudgetExhausted) as error:
            said = str(error)
        if found.protocol is not None:
            how = "by tool calls" if found.protocol == "tools" else "by fenced text"
            return Check("protocol", True, how)
    return Check("protocol", False, said)


def _trial(settings: LlmSettings, ledger: BudgetLedger) -> str:
    """Which protocol the model used. Raises MalformedAnswer, EndpointProblem or BudgetExhausted."""
    model = ChatModel(settings, ledger)
    try:
        prompt = render("trial", tool=SHOW_DIAGNOSIS)
        answer = model.ask([{"role": "user", "content": prompt}], [SHOW_DIAGNOSIS.schema()], TRIAL_SECONDS)
    finally:
        model.close()
    call = read_calls(answer)[0]
    if call.name != SHOW_DIAGNOSIS.name:
        raise MalformedAnswer(f"it calls {call.name[:60]!r} instead of {SHOW_DIAGNOSIS.name!r}")
    return "tools" if call.id is not None else "text"


def listed_context(entry: dict[str, Any]) -> int | None:
    """The context in tokens as the endpoint's model list says it; None if it does not."""
    meta = entry.get("meta")
    for place in (entry, meta if isinstance(meta, dict) else {}):
        for name in CONTEXT_FIELDS:
            if type(place.get(name)) is int and place[name] > 0:
                return int(place[name])
    return None


def _enough(tokens: int) -> Check:
    if tokens >= USEFUL_CONTEXT:
        return Check("context", True, f"{tokens} tokens")
    return Check("context", False, f"{tokens} tokens; at least {USEFUL_CONTEXT} are useful (docs/agents.md)")


def _probe_context(settings: LlmSettings, ledger: BudgetLedger) -> Check:
    """A word at the beginning of a long prompt: a server that cuts prompts silently does not give it back."""
    filler = FILLER * (FILLER_BYTES // len(FILLER))
    prompt = render("context", word=CODE_WORD, filler=filler)
    try:
        model = ChatModel(settings, ledger)
        try:
            answer = model.ask([{"role": "user", "content": prompt}], [], TRIAL_SECONDS)
        finally:
            model.close()
    except BudgetExhausted as error:
        return Check("context", None, f"not known, the trial was not paid for: {error}")
    except EndpointProblem as error:
        return Check("context", False, f"a prompt of about {USEFUL_CONTEXT - 4_000} tokens fails: {error}")
    if CODE_WORD in str(answer.message["content"]):
        return Check("context", True, f"a prompt of about {USEFUL_CONTEXT - 4_000} tokens is read whole")
    read = f" (it says it read {answer.usage.prompt} tokens)" if answer.usage.prompt is not None else ""
    return Check("context", None, f"not known: the beginning of a long prompt was not given back{read}")


def _sandbox_check(sandbox: Callable[[], None]) -> Check:
    try:
        sandbox()
    except SandboxUnavailable as error:
        return Check("sandbox works", False, str(error))
    except AgentError as error:
        return Check("sandbox works", False, f"a capture of known code failed: {error}")
    return Check("sandbox works", True, "a trial capture came back; `spyre-factory sandbox selftest` proves the rest")
