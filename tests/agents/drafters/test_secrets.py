"""A key that an endpoint sends back is in no trajectory and in no outcome."""

from __future__ import annotations

from typing import Any

import pytest

from agents.drafters import DraftEnd, draft_with
from agents.drafters.llm import LlmDrafter, LlmSettings
from agents.endpoint import Script, Step, serve
from agents.types import Diagnosis, DraftContext

CANARY = "canary-key-7f3a91c2"


@pytest.mark.parametrize(
    "step",
    [
        Step(status=401, say=f"Incorrect API key provided: {CANARY}"),
        Step(status=500, say=f"Authorization: Bearer {CANARY}"),
        Step(tool="submit", arguments={"outcome": "cannot_be_patched", "explanation": f"your key is {CANARY}"}),
        Step(say=f"{CANARY} " * 20),
        Step(tool=CANARY),
        Step(body='{"choices": [{"message": {"content": "' + CANARY.replace("c", "\\u0063") + '"}}]}'),
        Step(tool="submit", raw_arguments='{"explanation": "' + CANARY + '", "outcome": "cannot_be_patched"}'),
    ],
    ids=["401", "500", "in an argument", "in talk", "as a tool", "escaped", "in raw arguments"],
)
def test_a_key_that_the_endpoint_sends_back_is_nowhere(
    step: Step, pow_cause: Diagnosis, context: DraftContext, trajectory: Any
) -> None:
    script = Script("echo", ("Patch `",), (step,), advance="answers", then="repeat")
    with serve(scripts=[script]) as endpoint:
        settings = LlmSettings(base_url=endpoint.url, api_key=CANARY, daily_budget_usd=1.0, retries=0)
        outcome = draft_with("llm", [pow_cause], context, LlmDrafter(settings))
    assert outcome.reports[0].end in (DraftEnd.ENDPOINT, DraftEnd.LIMIT, DraftEnd.CANNOT_BE_PATCHED)
    assert CANARY not in trajectory.text
    assert CANARY not in repr(outcome)
