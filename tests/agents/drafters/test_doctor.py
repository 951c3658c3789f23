"""What the doctor finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.drafters.llm import LlmSettings, MemoryLedger, Price
from agents.drafters.llm.doctor import Examination, _price, _probe_context, examine, listed_context
from agents.endpoint import Fault, Script, Step, serve
from agents.errors import CandidateRefused, SandboxUnavailable


def works() -> None:
    """A sandbox that works."""


def found(settings: LlmSettings) -> dict[str, tuple[bool | None, str]]:
    return {check.name: (check.passed, check.detail) for check in examine(settings, works).checks}


def test_everything_is_there() -> None:
    with serve() as endpoint:
        checks = found(LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0))
    assert all(passed for passed, _ in checks.values())
    names = ["endpoint set", "daily budget set", "endpoint answers", "model listed", "price known", "protocol"]
    assert list(checks) == [*names, "context", "sandbox works"]
    assert "count in no figure" in checks["price known"][1]


def test_nothing_is_set() -> None:
    checks = found(LlmSettings())
    assert not checks["endpoint set"][0]
    assert not checks["daily budget set"][0]
    assert checks["sandbox works"][0]


@pytest.mark.parametrize(
    ("fault", "passed", "said"),
    [
        (Fault.NO_TOOLS, True, "by fenced text"),
        (Fault.REFUSE_TOOLS, True, "by fenced text"),
        (Fault.MALFORMED_ARGUMENTS, True, "by fenced text"),
        (Fault.TRUNCATED, False, "could not be used"),
        (Fault.SERVER_ERROR, False, "HTTP 500"),
    ],
)
def test_the_trial_call_shows_how_tools_are_called(fault: Fault, passed: bool, said: str) -> None:
    with serve(fault=fault, times=99) as endpoint:
        trial = found(LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0, retries=0))["protocol"]
    assert trial[0] is passed
    assert said in trial[1]


def test_a_model_the_endpoint_does_not_have_and_an_endpoint_that_is_gone() -> None:
    with serve() as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0, model="other")
        assert found(settings)["model listed"] == (False, "set SPYRE_FACTORY_LLM_MODEL to one of scripted")
    assert not found(replace(settings, model=None))["endpoint answers"][0]


def test_a_price_that_is_unknown_is_said() -> None:
    assert _price("m", LlmSettings())[1:2] == (None,)
    assert "1.0 and 2.0 USD" in _price("m", LlmSettings(price=Price(1.0, 2.0))).detail


@pytest.mark.parametrize("error", [SandboxUnavailable("no bubblewrap"), CandidateRefused("odd")])
def test_a_sandbox_that_does_not_work_is_a_failed_check(error: Exception) -> None:
    def broken() -> None:
        raise error

    [check] = [c for c in examine(LlmSettings(), broken).checks if c.name == "sandbox works"]
    assert not check.passed
    assert str(error) in check.detail


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        ({"max_model_len": 32_768}, 32_768),
        ({"context_length": 8_192}, 8_192),
        ({"meta": {"n_ctx": 4_096}}, 4_096),
        ({"max_model_len": None, "meta": "odd"}, None),
        ({"max_model_len": True}, None),
    ],
)
def test_the_context_is_read_where_servers_list_it(entry: dict[str, object], tokens: int | None) -> None:
    assert listed_context(entry) == tokens


def test_a_server_that_cuts_long_prompts_is_noticed() -> None:
    """It answers, but does not know the word at the beginning: that is unknown, never a pass."""
    cut = Script("cut", ("The code word is",), (Step(say="fox"),))
    with serve(scripts=[cut]) as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0)
        check = _probe_context(settings, MemoryLedger(1.0))
    assert check.passed is None
    assert "was not given back" in check.detail


def test_trial_calls_are_paid_from_the_ledger_that_is_handed_in() -> None:
    ledger = MemoryLedger(1.0)
    with serve() as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0)
        done: Examination = examine(settings, works, ledger)
    assert (done.protocol, len(ledger.entries)) == ("tools", 2)
