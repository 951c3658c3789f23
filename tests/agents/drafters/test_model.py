"""One call over real HTTP with the real client: money, faults, limits. The endpoint is the scripted one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from agents.drafters.llm import Limits, LlmSettings, MemoryLedger, Price
from agents.drafters.llm.messages import Usage, read_calls
from agents.drafters.llm.model import ChatModel, read_answer, read_usage
from agents.drafters.llm.settings import ASSUMED
from agents.drafters.llm.tools import SUBMIT
from agents.endpoint import Fault, serve
from agents.errors import BudgetExhausted, EndpointProblem, MalformedAnswer

MESSAGES = [{"role": "user", "content": "aten.pow in NewGELUActivation"}]
TOOLS = [SUBMIT.schema()]
QUICK = Limits(call_seconds=20.0, answer_bytes=100_000, answer_tokens=1000)


@contextmanager
def model(
    fault: Fault | None = None, times: int = 1, ledger: MemoryLedger | None = None, **settings: Any
) -> Iterator[ChatModel]:
    with serve(fault=fault, times=times) as endpoint:
        values = {"base_url": endpoint.url, "daily_budget_usd": 1.0, "limits": QUICK, **settings}
        chat = ChatModel(LlmSettings(**values), ledger or MemoryLedger(1.0))
        try:
            yield chat
        finally:
            chat.close()


def test_the_only_model_of_the_endpoint_is_taken() -> None:
    with model() as chat:
        assert chat.name == "scripted"
        [call] = read_calls(chat.ask(MESSAGES, TOOLS, 20))
        assert (call.name, call.id is not None) == ("read_source", True)


def test_the_scripted_model_costs_nothing_and_its_reservation_is_settled() -> None:
    ledger = MemoryLedger(1.0)
    with model(ledger=ledger) as chat:
        answer = chat.ask(MESSAGES, TOOLS, 20)
    assert (answer.charge.cost_usd, ledger.charged_usd) == (0.0, 0.0)
    assert answer.usage.total == answer.charge.charged_tokens
    assert ledger.settled == {"r1": 0.0}


class Renamed(ChatModel):
    """A model with a price: the same endpoint, another name for the books."""

    def _post(self, *args: Any) -> Any:
        booked, self.name = self.name, "scripted"
        try:
            return super()._post(*args)
        finally:
            self.name = booked


@contextmanager
def priced(price: Price | None, ledger: MemoryLedger, fault: Fault | None = None) -> Iterator[ChatModel]:
    with serve(fault=fault) as endpoint:
        settings = LlmSettings(
            base_url=endpoint.url, model="dear", daily_budget_usd=1.0, price=price, limits=QUICK, retries=0
        )
        chat = Renamed(settings, ledger)
        try:
            yield chat
        finally:
            chat.close()


def test_a_known_price_is_charged_by_usage() -> None:
    ledger = MemoryLedger(1.0)
    with priced(Price(10.0, 100.0), ledger) as chat:
        answer = chat.ask(MESSAGES, TOOLS, 20)
    assert answer.usage.prompt is not None
    assert answer.usage.completion is not None
    assert answer.charge.cost_usd == (answer.usage.prompt * 10 + answer.usage.completion * 100) / 1e6
    assert ledger.charged_usd == answer.charge.cost_usd


@pytest.mark.parametrize(
    ("price", "fault"), [(None, None), (Price(1.0, 1.0), Fault.NO_USAGE)], ids=["no price", "no usage"]
)
def test_an_unknown_cost_stays_charged_with_what_was_reserved(price: Price | None, fault: Fault | None) -> None:
    ledger = MemoryLedger(1.0)
    with priced(price, ledger, fault) as chat:
        answer = chat.ask(MESSAGES, TOOLS, 20)
    assert answer.charge.cost_usd is None
    assert ledger.settled == {"r1": None}
    assert 0 < ledger.charged_usd == answer.charge.charged_usd
    assert ledger.charged_usd >= (price or ASSUMED).of(0, QUICK.answer_tokens)


def test_an_answer_that_cannot_be_parsed_is_charged() -> None:
    ledger = MemoryLedger(1.0)
    with priced(Price(10.0, 100.0), ledger, Fault.MALFORMED_BODY) as chat, pytest.raises(EndpointProblem):
        chat.ask(MESSAGES, TOOLS, 20)
    assert ledger.charged_usd > 0


def test_without_money_no_call_is_made() -> None:
    ledger = MemoryLedger(0.0001)
    with priced(None, ledger) as chat, pytest.raises(BudgetExhausted, match=r"0\.0001 USD are charged today"):
        chat.ask(MESSAGES, TOOLS, 20)
    assert ledger.entries == {}


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.MALFORMED_BODY, Fault.ENDLESS])
def test_a_fault_that_passes_is_tried_again_with_its_own_reservation(fault: Fault) -> None:
    ledger = MemoryLedger(1.0)
    with model(fault, times=2, ledger=ledger) as chat:
        assert read_calls(chat.ask(MESSAGES, TOOLS, 20))
    assert len(ledger.entries) == 3


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.RATE_LIMIT, "HTTP 429"),
        (Fault.SERVER_ERROR, "HTTP 500"),
        (Fault.MALFORMED_BODY, "not JSON"),
        (Fault.ENDLESS, "exceeds 100000 bytes"),
    ],
)
def test_a_fault_that_stays_is_an_endpoint_problem(fault: Fault, said: str) -> None:
    with model(fault, times=99) as chat, pytest.raises(EndpointProblem, match=said):
        chat.ask(MESSAGES, TOOLS, 20)


def test_an_answer_that_does_not_end_in_time_is_given_up() -> None:
    ticks = itertools.count(step=1.0)
    with serve(fault=Fault.ENDLESS, times=99) as endpoint:
        limits = replace(QUICK, answer_bytes=10**9, call_seconds=5.0)
        settings = LlmSettings(base_url=endpoint.url, model="scripted", daily_budget_usd=1.0, limits=limits)
        chat = ChatModel(settings, MemoryLedger(1.0), clock=lambda: next(ticks))
        with pytest.raises(EndpointProblem, match="did not end in time"):
            chat.ask(MESSAGES, TOOLS, 5.0)
        chat.close()


@pytest.mark.parametrize("fault", [Fault.NO_TOOLS, Fault.REFUSE_TOOLS])
def test_an_endpoint_without_tool_calls_is_used_by_the_text_protocol(fault: Fault) -> None:
    with model(fault) as chat:
        [call] = read_calls(chat.ask(MESSAGES, TOOLS, 20))
        assert (call.name, call.id) == ("read_source", None)


def test_the_text_protocol_can_be_asked_for() -> None:
    with model(protocol="text") as chat:
        [call] = read_calls(chat.ask(MESSAGES, TOOLS, 20))
        assert call.id is None


def test_malformed_arguments_and_cut_answers_are_the_models_fault() -> None:
    for fault, said in ((Fault.MALFORMED_ARGUMENTS, "not valid JSON"), (Fault.TRUNCATED, "too long")):
        with model(fault) as chat, pytest.raises(MalformedAnswer, match=said):
            read_calls(chat.ask(MESSAGES, TOOLS, 20))


def test_an_unreachable_endpoint_and_a_bad_address_are_endpoint_problems() -> None:
    with serve() as endpoint:
        gone = endpoint.url
    for address in (gone, "no-scheme", "http://[broken"):
        with pytest.raises(EndpointProblem, match="endpoint"):
            ChatModel(LlmSettings(base_url=address, daily_budget_usd=1.0), MemoryLedger(1.0))


def test_the_key_is_not_shown() -> None:
    assert "sk-secret" not in repr(LlmSettings(api_key="sk-secret"))


def test_settings_read_endpoint_and_key_from_the_environment_only() -> None:
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_API_KEY": "k"}
    settings = LlmSettings.from_environment(model="m", daily_budget_usd=2.0, environ=environ)
    assert (settings.base_url, settings.api_key, settings.why_off()) == ("http://127.0.0.1:1/v1", "k", None)
    off = LlmSettings.from_environment(model=None, daily_budget_usd=2.0, environ={"OPENAI_API_KEY": "k"})
    assert "OPENAI_BASE_URL" in str(off.why_off())
    assert "DAILY_BUDGET" in str(replace(settings, daily_budget_usd=0.0).why_off())


@pytest.mark.parametrize("data", [[], {}, {"choices": []}, {"choices": [{}]}, None, 3])
def test_what_is_no_chat_completion_is_an_endpoint_problem(data: Any) -> None:
    with pytest.raises(EndpointProblem):
        read_answer(data, Usage(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -1, "completion_tokens": True}, "many", [1]])
def test_usage_that_makes_no_sense_is_unknown(usage: Any) -> None:
    assert read_usage({"usage": usage}) == Usage(None, None)
    assert read_usage([usage]) == Usage(None, None)


def test_a_try_that_failed_is_charged_to_the_answer_that_came_after_it() -> None:
    """Otherwise a draft could pay for two failed tries at each of its turns and stay within its own limit."""
    ledger = MemoryLedger(10.0)
    with model(fault=Fault.RATE_LIMIT, ledger=ledger, model="dear", price=Price(30.0, 120.0), retries=1) as chat:
        chat.__class__ = Renamed
        answer = chat.ask(MESSAGES, TOOLS, 20)
    assert answer.charge.cost_usd is None
    assert answer.charge.charged_usd == pytest.approx(ledger.charged_usd)
    assert len(ledger.entries) == 2


def test_an_endpoint_that_never_answers_says_what_its_tries_were_charged() -> None:
    ledger = MemoryLedger(10.0)
    with model(fault=Fault.SERVER_ERROR, times=9, ledger=ledger, model="dear", retries=2) as chat:
        chat.__class__ = Renamed
        with pytest.raises(EndpointProblem) as caught:
            chat.ask(MESSAGES, TOOLS, 20)
    assert len(ledger.entries) == 3
    assert caught.value.charge.charged_usd == pytest.approx(ledger.charged_usd)
    assert caught.value.charge.cost_usd is None
