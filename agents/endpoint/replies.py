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
    """The body of one chat completion: the step as a tool call, or as a fenced block where there are no tools."""
    message = _text_message(step) if as_text else _call_message(step, request)
    digest = hashlib.sha256(json.dumps([request.get("messages"), message], sort_keys=True).encode()).hexdigest()
    prompt, written = _tokens([request.get("messages"), request.get("tools")]), _tokens(message)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "stop" if as_text else "tool_calls",
    }
    return {
        "id": f"chatcmpl-{digest[:24]}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
        "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
    }


def error(kind: str, text: str) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": text, "type": kind, "param": None, "code": kind}}


def _call_message(step: Step, request: dict[str, Any]) -> dict[str, Any]:
    function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
    call = {"id": f"call_{len(request.get('messages') or [])}", "type": "function", "function": function}
    return {"role": "assistant", "content": step.say, "refusal": None, "tool_calls": [call]}


def _text_message(step: Step) -> dict[str, Any]:
    block = json.dumps({"tool": step.tool, "arguments": step.arguments})
    return {"role": "assistant", "content": f"{step.say}\n```tool\n{block}\n```", "refusal": None}


def _tokens(value: Any) -> int:
    return len(json.dumps(value).encode()) // BYTES_PER_TOKEN
