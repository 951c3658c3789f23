"""What the doctor finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.drafters.llm import LlmSettings, Price
from agents.drafters.llm.doctor import examine
from agents.endpoint import Fault, serve
from agents.errors import CandidateRefused, SandboxUnavailable


def works() -> None:
    """A sandbox that works."""


def found(settings: LlmSettings) -> dict[str, tuple[bool, str]]:
    return {check.name: (check.passed, check.detail) for check in examine(settings, works)}


def test_everything_is_there() -> None:
    with serve() as endpoint:
        checks = found(LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0))
    assert all(passed for passed, _ in checks.values())
    assert len(checks) == 6
    assert "counts" not in checks["tool calls work"][1]
    assert "count in no figure" in checks["model chosen"][1]


def test_nothing_is_set() -> None:
    checks = found(LlmSettings())
    assert not checks["endpoint set"][0]
    assert not checks["daily budget set"][0]
    assert checks["sandbox works"][0]


@pytest.mark.parametrize(
    ("fault", "passed", "said"),
    [
        (Fault.NO_TOOLS, True, "text protocol"),
        (Fault.MALFORMED_ARGUMENTS, False, "could not be used"),
        (Fault.SERVER_ERROR, False, "HTTP 500"),
    ],
)
def test_the_trial_call_shows_how_tools_are_called(fault: Fault, passed: bool, said: str) -> None:
    with serve(fault=fault, times=99) as endpoint:
        trial = found(LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0))["tool calls work"]
    assert trial[0] is passed
    assert said in trial[1]


def test_a_model_the_endpoint_does_not_have_and_an_endpoint_that_is_gone() -> None:
    with serve() as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0, model="other")
        assert found(settings)["model chosen"] == (False, "set SPYRE_FACTORY_LLM_MODEL to one of scripted")
    assert not found(replace(settings, model=None))["endpoint answers"][0]


def test_a_price_that_is_unknown_is_said() -> None:
    from agents.drafters.llm.doctor import _described

    assert "price unknown" in _described("m", LlmSettings())
    assert "1.0 and 2.0 USD" in _described("m", LlmSettings(price=Price(1.0, 2.0)))


@pytest.mark.parametrize("error", [SandboxUnavailable("no bubblewrap"), CandidateRefused("odd")])
def test_a_sandbox_that_does_not_work_is_a_failed_check(error: Exception) -> None:
    def broken() -> None:
        raise error

    [check] = [c for c in examine(LlmSettings(), broken) if c.name == "sandbox works"]
    assert not check.passed
    assert str(error) in check.detail
