"""What keeps the `llm` drafter from drafting: settings, endpoint, model, tool calls and sandbox, each as one check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from agents.drafters.llm.budget import MemoryLedger
from agents.drafters.llm.messages import read_calls
from agents.drafters.llm.model import ChatModel, connect, list_models
from agents.drafters.llm.settings import SCRIPTED_MODEL, LlmSettings, price_of
from agents.drafters.llm.tools import READ_DIAGNOSIS
from agents.errors import AgentError, BudgetExhausted, EndpointProblem, MalformedAnswer, SandboxUnavailable

TRIAL_SECONDS = 30.0
PROMPT = "Call the tool read_diagnosis without arguments."


class Check(NamedTuple):
    """One thing the drafter needs, whether it is there, and what was seen or what to do."""

    name: str
    passed: bool
    detail: str


def examine(settings: LlmSettings, sandbox: Callable[[], None]) -> list[Check]:
    """Every check that makes sense; after a failed one the checks that need it are left out.

    The trial call is paid from the daily budget's amount, but not written to its ledger. `sandbox` raises
    SandboxUnavailable.
    """
    return [*_endpoint_checks(settings), _sandbox_check(sandbox)]


def _endpoint_checks(settings: LlmSettings) -> Iterator[Check]:
    yield Check("endpoint set", settings.base_url is not None, settings.base_url or str(settings.why_off()))
    budget = f"{settings.daily_budget_usd:.2f} USD per day"
    yield Check(
        "daily budget set", settings.daily_budget_usd > 0, budget if settings.daily_budget_usd > 0 else NO_BUDGET
    )
    if settings.base_url is None:
        return
    try:
        client = connect(settings)
        names = list_models(client)
        client.close()
    except EndpointProblem as error:
        yield Check("endpoint answers", False, str(error))
        return
    yield Check("endpoint answers", True, f"models listed: {len(names)}")
    yield from _model_checks(settings, names)


NO_BUDGET = "set SPYRE_FACTORY_LLM_DAILY_BUDGET_USD above 0"


def _model_checks(settings: LlmSettings, names: list[str]) -> Iterator[Check]:
    model = settings.model or (names[0] if len(names) == 1 else None)
    if model is None or model not in names:
        yield Check("model chosen", False, f"set SPYRE_FACTORY_LLM_MODEL to one of {', '.join(names[:10])}")
        return
    yield Check("model chosen", True, _described(model, settings))
    if settings.daily_budget_usd > 0:
        yield _trial(settings)


def _described(model: str, settings: LlmSettings) -> str:
    if model == SCRIPTED_MODEL:
        return f"{model}: a script, not a language model; it costs 0 and its candidates count in no figure"
    price = price_of(model, settings)
    if price is None:
        return f"{model}, price unknown: each call stays charged with what was reserved for it"
    return f"{model}, {price.prompt} and {price.completion} USD per million tokens"


def _trial(settings: LlmSettings) -> Check:
    name = "tool calls work"
    try:
        model = ChatModel(settings, MemoryLedger(settings.daily_budget_usd))
    except EndpointProblem as error:
        return Check(name, False, str(error))
    try:
        answer = model.ask([{"role": "user", "content": PROMPT}], [READ_DIAGNOSIS.schema()], TRIAL_SECONDS)
        calls = read_calls(answer)
    except MalformedAnswer as error:
        return Check(name, False, f"the answer to a trial call could not be used: {error}")
    except (EndpointProblem, BudgetExhausted) as error:
        return Check(name, False, str(error))
    finally:
        model.close()
    return Check(name, True, "by tool calls" if calls[0].id is not None else "by the text protocol")


def _sandbox_check(sandbox: Callable[[], None]) -> Check:
    try:
        sandbox()
    except SandboxUnavailable as error:
        return Check("sandbox works", False, str(error))
    except AgentError as error:
        return Check("sandbox works", False, f"a capture of known code failed: {error}")
    return Check("sandbox works", True, "a trial capture came back; `spyre-factory sandbox selftest` proves the rest")
