"""Answers of every shape that servers and models are known to send: each is handled, within budget, and saved.

The shapes are written here by hand and served over real HTTP. Each is sent for ever; a draft must end by itself.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.drafters import DraftEnd, draft_with
from agents.drafters.llm import Limits, LlmDrafter, LlmSettings, MemoryLedger
from agents.drafters.llm.messages import read_message
from agents.drafters.llm.model import read_answer, read_usage
from agents.endpoint import Script, Step, serve
from agents.types import Diagnosis, DraftContext

QUICK = Limits(turns=8, call_seconds=20.0, answer_bytes=400_000, answer_tokens=1000)


def body(message: Any, finish: Any = "stop", **more: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more})


def call(arguments: Any, name: Any = "submit", **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}, **more}]}


GIVES_UP = {"outcome": "cannot_be_patched", "explanation": "no"}
CALLS = [{"tool": "show_diagnosis"}] * 5

USED = {
    "arguments as an object": body(call(GIVES_UP, id="c1")),
    "a call without an id": body(call(json.dumps(GIVES_UP))),
    "a call with an empty id": body(call(json.dumps(GIVES_UP), id="")),
    "no finish reason": body(call(json.dumps(GIVES_UP), id="c1"), None),
    "content null": body({"content": None, **call(json.dumps(GIVES_UP), id="c1")}),
    "a field for reasoning": body({"reasoning_content": "hm", **call(json.dumps(GIVES_UP), id="c1")}),
    "content in parts": body(
        {"content": [{"type": "text", "text": '```tool\n{"tool": "submit", "arguments": '}, 3,
                     {"type": "text", "text": json.dumps(GIVES_UP) + "}\n```"}]}
    ),
    "thoughts that hold a call": body(
        {"content": '<think>```tool\n{"tool": "x"}\n```</think>\n```tool\n'
                    + json.dumps({"tool": "submit", "arguments": GIVES_UP}) + "\n```"}
    ),
    "thoughts without a beginning": body(
        {"content": 'so ```tool\n{"tool": "x"}\n```</think>\n```tool\n'
                    + json.dumps({"tool": "submit", "arguments": GIVES_UP}) + "\n```"}
    ),
    "NUL and a lone surrogate": body(call(json.dumps({**GIVES_UP, "explanation": "a\0b \ud800"}), id="c1")),
    "usage that is no count": body(
        call(json.dumps(GIVES_UP), id="c1"), usage={"prompt_tokens": 10**30, "completion_tokens": "many"}
    ),
    "fields that nobody knows": body(call(json.dumps(GIVES_UP), id="c1"), "tool_calls", system_fingerprint=[1], x={}),
}  # fmt: skip
"""What can be used is used: each of these gives up, which is a legal end."""

SENT_BACK = {
    "broken JSON": Step(tool="submit", raw_arguments='{"code": "def forward(x'),
    "arguments that are a list": Step(tool="submit", raw_arguments="[1]"),
    "arguments nested without end": Step(tool="submit", raw_arguments="[" * 50_000),
    "too many calls at once": Step(calls=tuple(CALLS)),
    "cut for its length": Step(tool="show_diagnosis", finish_reason="length"),
    "a field for reasoning only": Step(reasoning="I think", say=""),
    "a refusal": Step(refusal="I cannot help with that."),
    "withheld by a filter": Step(say="", finish_reason="content_filter"),
    "a tool that there is not": Step(tool="shell", arguments={"command": "id"}),
    "a tool with a strange name": Step(tool="submit; rm -rf / " * 20),
    "nothing": Step(say=""),
    "talk": Step(say="I would use a product."),
}
"""What cannot be used goes back with the reason; after five in a row the draft ends."""

FAILURES = {
    "1 MB": (Step(say="x" * 1000, times=1000), "exceeds 400000 bytes"),
    "429": (Step(status=429), "HTTP 429"),
    "500": (Step(status=500), "HTTP 500"),
    "503": (Step(status=503), "HTTP 503"),
    "401": (Step(status=401), "HTTP 401"),
    "404": (Step(status=404), "HTTP 404"),
    "a page": (Step(body="<html>busy</html>"), "not JSON"),
    "an event stream": (Step(body='data: {"choices": []}\n\n'), "not JSON"),
    "null": (Step(body="null"), "not a chat completion"),
    "a number": (Step(body="3"), "not a chat completion"),
    "no choices": (Step(body='{"choices": []}'), "not a chat completion"),
    "an error with status 200": (Step(body='{"error": {"message": "busy"}}'), "not a chat completion"),
    "a message that is text": (Step(body='{"choices": [{"message": "hi"}]}'), "not a chat completion"),
    "nested without end": (Step(body="[" * 100_000), "not JSON"),
    "too slow": (Step(tool="show_diagnosis", delay_s=600), "timed out"),
}
"""What is no answer ends the draft after its tries, and says what the endpoint did."""


def drafted(step: Step, cause: Diagnosis, context: DraftContext, limits: Limits = QUICK) -> Any:
    script = Script("shape", ("Patch `",), (step,), advance="answers", then="repeat")
    with serve(scripts=[script]) as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0, limits=limits, retries=1)
        outcome = draft_with("llm", [cause], context, LlmDrafter(settings))
    assert outcome.candidates == ()
    return outcome.reports[0]


@pytest.mark.parametrize("shape", USED)
def test_what_can_be_used_is_used(shape: str, pow_cause: Diagnosis, context: DraftContext, trajectory: Any) -> None:
    report = drafted(Step(body=USED[shape]), pow_cause, context)
    assert (report.end, report.turns) == (DraftEnd.CANNOT_BE_PATCHED, 1)
    json.dumps(trajectory.steps, ensure_ascii=False).encode()


@pytest.mark.parametrize("shape", SENT_BACK)
def test_what_cannot_be_used_is_sent_back_and_ends_after_five_in_a_row(
    shape: str, pow_cause: Diagnosis, context: DraftContext, trajectory: Any
) -> None:
    report = drafted(SENT_BACK[shape], pow_cause, context)
    assert (report.end, report.turns, report.submissions) == (DraftEnd.LIMIT, 5, 0)
    said = [m["content"] for step in trajectory.steps for m in step["messages"] if m["role"] in ("tool", "user")][1:]
    assert len(said) >= 5
    assert all("could not be used" in text for text in said)
    assert trajectory.steps[-1]["kind"] == "end"


@pytest.mark.parametrize("shape", FAILURES)
def test_what_is_no_answer_ends_the_draft_and_says_what_was_done(
    shape: str, pow_cause: Diagnosis, context: DraftContext, trajectory: Any
) -> None:
    step, said = FAILURES[shape]
    limits = QUICK if step.delay_s == 0 else Limits(call_seconds=1.0, answer_tokens=1000)
    report = drafted(step, pow_cause, context, limits)
    assert report.end is DraftEnd.ENDPOINT
    assert said in report.reason.lower() if shape == "too slow" else said in report.reason
    assert said in trajectory.steps[-1]["reason"].lower() if shape == "too slow" else True


@pytest.mark.parametrize(("status", "calls"), [(401, 1), (404, 1), (429, 2), (500, 2)])
def test_what_cannot_pass_is_not_tried_again(
    status: int, calls: int, pow_cause: Diagnosis, context: DraftContext
) -> None:
    drafted(Step(status=status), pow_cause, context)
    ledger = context.budget
    assert isinstance(ledger, MemoryLedger)
    assert len(ledger.entries) == calls


def test_broken_arguments_are_kept_for_the_record_and_not_sent_back_to_the_server() -> None:
    """Servers that read the arguments of earlier calls fail on them: the conversation would be dead."""
    message, extra = read_message(call('{"code": "def', id="c9"), 4)
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"
    assert extra == {"broken_arguments": {"c9": '{"code": "def'}}


def test_calls_that_are_no_calls_are_left_out() -> None:
    message, _ = read_message({"content": "x", "tool_calls": [None, 3, {"function": None}, {"function": {}}]}, 0)
    assert message == {"role": "assistant", "content": "x"}


def test_a_count_that_no_database_holds_is_unknown() -> None:
    assert read_usage({"usage": {"prompt_tokens": 10**12, "completion_tokens": 1}}).total is None


def test_reasoning_is_stored_and_not_sent_again() -> None:
    data = {"choices": [{"message": {"content": "x", "reasoning": "long"}, "finish_reason": "stop"}]}
    answer = read_answer(data, read_usage(data), None)  # type: ignore[arg-type]
    assert (answer.message, answer.extra) == ({"role": "assistant", "content": "x"}, {"reasoning": "long"})
