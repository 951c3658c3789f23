"""What a model's answer is, and how it is read: tool calls, or the text protocol for endpoints without them.

A malformed answer is an exception that carries the message to send back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from agents.errors import MalformedAnswer

MAX_CALLS = 4
"""Tool calls read from one answer; more is refused."""

BLOCK = re.compile(r"```tool[ \t]*\n(.*?)\n?```", re.DOTALL)
"""The text protocol: one fenced block of the language `tool` that holds a JSON object."""


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
    """One answer: the message to append to the conversation, and what it cost."""

    message: dict[str, Any]
    usage: Usage
    charge: Charge
    finish_reason: str


def read_calls(answer: Answer) -> list[ToolCall]:
    """The calls an answer asks for, at least one. Raises MalformedAnswer with what to tell the model."""
    if answer.finish_reason == "length":
        raise MalformedAnswer("it was cut because it is too long; answer shorter")
    native = answer.message.get("tool_calls") or []
    calls = [_native(call) for call in native] if native else [_from_text(str(answer.message.get("content") or ""))]
    if len(calls) > MAX_CALLS:
        raise MalformedAnswer(f"it asks for {len(calls)} calls, at most {MAX_CALLS} are read")
    return calls


def _native(call: dict[str, Any]) -> ToolCall:
    function = call["function"]
    return ToolCall(function["name"], _arguments(function["arguments"] or "{}"), call["id"])


def _from_text(text: str) -> ToolCall:
    blocks = BLOCK.findall(text)
    if len(blocks) != 1:
        raise MalformedAnswer(f"it holds {len(blocks)} tool calls, exactly one is needed")
    data = _arguments(blocks[0])
    arguments = data.get("arguments", {})
    if not isinstance(data.get("tool"), str) or not isinstance(arguments, dict):
        raise MalformedAnswer('the block must be {"tool": "NAME", "arguments": {...}}')
    return ToolCall(data["tool"], arguments)


def _arguments(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
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
