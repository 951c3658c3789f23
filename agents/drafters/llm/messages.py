"""What a model's answer is, and how it is read: tool calls, or the text protocol for endpoints without them.

A malformed answer is an exception that carries the message to send back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from agents.errors import MalformedAnswer
from agents.redact import Redactor

MAX_CALLS = 4
"""Tool calls read from one answer; more is refused."""

BLOCK = re.compile(r"```tool[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
"""The text protocol: one fenced block of the language `tool` that holds a JSON object."""

THOUGHT = re.compile(r"(?:\A|<think(?:ing)?>)(?:(?!<think).)*</think(?:ing)?>|<think(?:ing)?>.*\Z", re.DOTALL)
"""Reasoning that some servers leave in the answer's text, some without its beginning; calls in it are no calls."""

CLEAN = Redactor()
"""Arguments are JSON inside JSON: what no store accepts may hide in their escapes."""

DECLINED = frozenset({"content_filter", "refusal"})
"""Finish reasons of an answer that was withheld."""


@dataclass(frozen=True)
class ToolCall:
    """One call a model asks for. `id` is None in the text protocol."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


@dataclass(frozen=True)
class Usage:
    """Tokens as the endpoint reports them; None is unknown."""

    prompt: int | None = None
    completion: int | None = None

    @property
    def total(self) -> int | None:
        """Both together; None if either is unknown."""
        return None if self.prompt is None or self.completion is None else self.prompt + self.completion


@dataclass(frozen=True)
class Charge:
    """What one call cost: `cost_usd` None is unknown, and then what was reserved stays charged."""

    cost_usd: float | None
    charged_usd: float
    charged_tokens: int

    def plus(self, other: Charge) -> Charge:
        """Both together; the cost is unknown if either is."""
        unknown = self.cost_usd is None or other.cost_usd is None
        cost = None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0)
        return Charge(cost, self.charged_usd + other.charged_usd, self.charged_tokens + other.charged_tokens)


@dataclass(frozen=True)
class Answer:
    """One answer: the message to append to the conversation, and what it cost.

    `extra` is what is stored but never sent again: reasoning, a refusal, arguments that are no JSON.
    """

    message: dict[str, Any]
    usage: Usage
    charge: Charge
    finish_reason: str
    reservation: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def declined(self) -> bool:
        """True where the model, or a filter before it, would not answer."""
        return bool(self.extra.get("refusal")) or self.finish_reason in DECLINED


def read_message(message: dict[str, Any], number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What goes on in the conversation, and what is only stored.

    Servers differ: content as text, as parts or null; arguments as text or as an object; calls without an id. The
    conversation keeps one form, and arguments that are no JSON as `{}`: some servers fail on reading them back.
    """
    calls = [_call(c, f"call_{number}_{i}") for i, c in enumerate(_listed(message.get("tool_calls"))) if _named(c)]
    broken = {c["id"]: c["function"]["arguments"] for c in calls if not _is_json(c["function"]["arguments"])}
    kept = [{**c, "function": {**c["function"], "arguments": "{}"}} if c["id"] in broken else c for c in calls]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    extra = {"reasoning": reasoning, "refusal": message.get("refusal"), "broken_arguments": broken}
    spoken = {"role": "assistant", "content": text_of(message.get("content"))} | ({"tool_calls": kept} if kept else {})
    return spoken, {name: value for name, value in extra.items() if value}


def text_of(content: Any) -> str:
    """The text of a message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in _listed(content) if isinstance(part, dict)]
    return "".join(part for part in parts if isinstance(part, str))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _call(call: dict[str, Any], default_id: str) -> dict[str, Any]:
    function, given = call["function"], call.get("id")
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {
        "id": given if isinstance(given, str) and given else default_id,
        "type": "function",
        "function": {"name": function["name"], "arguments": text},
    }


def _is_json(text: str) -> bool:
    try:
        _arguments(text or "{}")
    except MalformedAnswer:
        return False
    return True


def read_calls(answer: Answer) -> list[ToolCall]:
    """The calls an answer asks for, at least one. Raises MalformedAnswer with what to tell the model."""
    if answer.declined:
        raise MalformedAnswer("it declines; if the cause cannot be patched, submit that as the outcome")
    if answer.finish_reason == "length":
        raise MalformedAnswer("it was cut because it is too long; answer shorter")
    broken = answer.extra.get("broken_arguments") or {}
    native = answer.message.get("tool_calls") or []
    calls = [_native(call, broken) for call in native] or [_from_text(str(answer.message.get("content") or ""))]
    if len(calls) > MAX_CALLS:
        raise MalformedAnswer(f"it asks for {len(calls)} calls, at most {MAX_CALLS} are read")
    return calls


def _native(call: dict[str, Any], broken: dict[str, str]) -> ToolCall:
    function = call["function"]
    return ToolCall(function["name"], _arguments(broken.get(call["id"], function["arguments"]) or "{}"), call["id"])


def _from_text(text: str) -> ToolCall:
    blocks = BLOCK.findall(THOUGHT.sub("", text))
    if len(blocks) != 1:
        raise MalformedAnswer(f"it holds {len(blocks)} tool calls, exactly one is needed")
    data = _arguments(blocks[0])
    arguments = data.get("arguments", {})
    if not isinstance(data.get("tool"), str) or not isinstance(arguments, dict):
        raise MalformedAnswer('the block must be {"tool": "NAME", "arguments": {...}}')
    return ToolCall(data["tool"], arguments)


def _arguments(text: str) -> dict[str, Any]:
    try:
        data = CLEAN.data(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"the arguments are not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise MalformedAnswer("the arguments must be a JSON object")
    return data


def reply_to(call: ToolCall | None, text: str) -> dict[str, Any]:
    """The message that answers a call: a tool message, or a user message in the text protocol."""
    if call is not None and call.id is not None:
        return {"role": "tool", "tool_call_id": call.id, "content": text}
    return {"role": "user", "content": text}
