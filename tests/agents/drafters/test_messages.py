"""Reading a model's answer: tool calls, the text protocol, and every malformed form."""

from __future__ import annotations

from typing import Any

import pytest

from agents.drafters.llm.messages import MAX_CALLS, Answer, Charge, ToolCall, Usage, read_calls, reply_to
from agents.errors import MalformedAnswer


def answer(content: str = "", calls: list[tuple[str, str]] | None = None, finish: str = "stop") -> Answer:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": text}}
            for i, (name, text) in enumerate(calls)
        ]
    return Answer(message, Usage(), Charge(None, 0.0, 0), finish)


def block(text: str) -> str:
    return f"I do this.\n```tool\n{text}\n```"


def test_tool_calls_are_read_with_their_ids() -> None:
    assert read_calls(answer(calls=[("submit", '{"a": 1}')])) == [ToolCall("submit", {"a": 1}, "c0")]


def test_the_text_protocol_holds_one_block() -> None:
    text = block('{"tool": "submit", "arguments": {"a": 1}}')
    assert read_calls(answer(text)) == [ToolCall("submit", {"a": 1}, None)]


def test_arguments_may_be_left_out() -> None:
    assert read_calls(answer(block('{"tool": "show_diagnosis"}'))) == [ToolCall("show_diagnosis", {}, None)]
    assert read_calls(answer(calls=[("show_diagnosis", "")])) == [ToolCall("show_diagnosis", {}, "c0")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (answer("just talk"), "holds 0 tool calls"),
        (answer(block("{}") + block("{}")), "holds 2 tool calls"),
        (answer(block("{not json")), "not valid JSON"),
        (answer(block("[1, 2]")), "must be a JSON object"),
        (answer(block('{"tool": 3}')), "the block must be"),
        (answer(block('{"tool": "x", "arguments": []}')), "the block must be"),
        (answer(calls=[("submit", '{"code": "x')]), "not valid JSON"),
        (answer(calls=[("submit", "[]")]), "must be a JSON object"),
        (answer(calls=[("submit", "{}")] * (MAX_CALLS + 1)), "at most"),
        (answer(calls=[("submit", "[" * 100_000)]), "not valid JSON"),
        (answer(block('{"tool": "submit"}'), finish="length"), "too long"),
    ],
)
def test_a_malformed_answer_carries_what_to_say_to_the_model(given: Answer, said: str) -> None:
    with pytest.raises(MalformedAnswer, match=said):
        read_calls(given)


def test_replies_take_the_form_of_the_call() -> None:
    assert reply_to(ToolCall("x", {}, "c1"), "done") == {"role": "tool", "tool_call_id": "c1", "content": "done"}
    assert reply_to(ToolCall("x", {}), "done") == {"role": "user", "content": "done"}
    assert reply_to(None, "done") == {"role": "user", "content": "done"}


def test_usage_is_unknown_if_a_part_is() -> None:
    assert Usage(3, None).total is None
    assert Usage(3, 4).total == 7
