"""Bodies of the OpenAI format that the scripted endpoint sends: model list, chat completion, error."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from agents.endpoint.script import Step

MODEL = "scripted"
"""The one model name. Candidates drafted with it are stored as `model: scripted` and count in no figure."""

BYTES_PER_TOKEN = 4
"""The endpoint has no tokenizer: its usage figures are bytes / 4, the same for the same text."""


def model_list() -> dict[str, Any]:
    """The body of /v1/models."""
    entry = {"id": MODEL, "object": "model", "created": 0, "owned_by": "spyre-factory scripted endpoint"}
    return {"object": "list", "data": [entry]}


def completion(step: Step, request: dict[str, Any], *, as_text: bool) -> dict[str, Any]:
    """The body of one chat completion: the step as tool calls, or as a fenced block where there are no tools."""
    message = _text_message(step) if as_text else _call_message(step, request)
    digest = hashlib.sha256(json.dumps([request.get("messages"), message], sort_keys=True).encode()).hexdigest()
    prompt, written = _tokens([request.get("messages"), request.get("tools")]), _tokens(message)
    usual = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": step.finish_reason or usual}
    body = {
        "id": f"chatcmpl-{digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
    }
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    return body | ({"usage": usage} if step.usage else {})


def error(kind: str, text: str) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": text, "type": kind, "param": None, "code": kind}}


def _call_message(step: Step, request: dict[str, Any]) -> dict[str, Any]:
    number = len(request.get("messages") or [])
    calls = [
        {"id": f"call_{number}" + (f"_{i}" if i else ""), "type": "function", "function": function}
        for i, function in enumerate(_functions(step))
    ]
    return _message(step, step.say * step.times) | ({"tool_calls": calls} if calls else {})


def _text_message(step: Step) -> dict[str, Any]:
    blocks = [
        f'```tool\n{{"tool": {json.dumps(f["name"])}, "arguments": {f["arguments"]}}}\n```' for f in _functions(step)
    ]
    return _message(step, "\n".join([step.say * step.times, *blocks]))


def _message(step: Step, content: str) -> dict[str, Any]:
    reasoning = {"reasoning_content": step.reasoning} if step.reasoning else {}
    return {"role": "assistant", "content": content, "refusal": step.refusal, **reasoning}


def _functions(step: Step) -> list[dict[str, str]]:
    calls = [*([{"tool": step.tool, "arguments": step.arguments}] if step.tool else []), *step.calls]
    made = [{"name": call["tool"], "arguments": json.dumps(call.get("arguments") or {})} for call in calls]
    if made and step.raw_arguments is not None:
        made[0]["arguments"] = step.raw_arguments
    return made


def _tokens(value: Any) -> int:
    return len(json.dumps(value).encode()) // BYTES_PER_TOKEN
