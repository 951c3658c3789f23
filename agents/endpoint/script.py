"""Scripts of the scripted endpoint: data that says what a deterministic "model" answers.

    scripts:
      - name: gelu-new-cube
        match: {all: ["aten.pow", "NewGELUActivation"]}     # texts that the first user message must hold
        steps:
          - {say: "I look at the source.", tool: read_source, arguments: {}}
          - {tool: submit, arguments: {code: "...", explanation: "..."}}

The step is chosen by the conversation alone: the first script whose texts all occur in the first user message, and in
it the step whose number is the count of tool calls already made. So the endpoint keeps no state and repeats itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

CALL_IN_TEXT = re.compile(r"^```tool[ \t]*$", re.MULTILINE)


class ScriptError(ValueError):
    """A script file cannot be used; the message names the place."""


@dataclass(frozen=True)
class Step:
    """One answer: what is said, and the one tool call."""

    tool: str
    arguments: dict[str, Any]
    say: str = ""


@dataclass(frozen=True)
class Script:
    """Answers for the conversations whose first user message holds every text of `match_all`."""

    name: str
    match_all: tuple[str, ...]
    steps: tuple[Step, ...]


GIVE_UP = Step(
    tool="submit",
    arguments={"outcome": "cannot_be_patched", "explanation": "no script of the scripted endpoint matches"},
    say="No script matches this diagnosis.",
)


def load_scripts(path: Path | None = None) -> tuple[Script, ...]:
    """The scripts of a YAML or JSON file; without one those that come with the package. Raises ScriptError."""
    text = _bundled() if path is None else _read(path)
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScriptError(f"the script is not YAML: {error}") from error
    if not isinstance(data, dict) or set(data) != {"scripts"} or not isinstance(data["scripts"], list):
        raise ScriptError("a script file has the one key `scripts`, a list")
    return tuple(_script(item, number) for number, item in enumerate(data["scripts"], start=1))


def _bundled() -> str:
    return (files("agents.endpoint") / "scripts" / "demo.yaml").read_text(encoding="utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"the script {str(path)!r} cannot be read: {error}") from error


def _script(item: Any, number: int) -> Script:
    if not isinstance(item, dict) or set(item) != {"name", "match", "steps"}:
        raise ScriptError(f"script {number} needs exactly the keys name, match and steps")
    texts = item["match"].get("all") if isinstance(item["match"], dict) else None
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
        raise ScriptError(f"script {number}: match needs `all`, a list of texts")
    if not isinstance(item["steps"], list) or not item["steps"]:
        raise ScriptError(f"script {number}: steps is empty")
    return Script(str(item["name"]), tuple(texts), tuple(_step(s, number) for s in item["steps"]))


def _step(item: Any, number: int) -> Step:
    known = isinstance(item, dict) and {"tool"} <= set(item) <= {"tool", "arguments", "say"}
    if not known or not isinstance(item.get("arguments", {}), dict):
        raise ScriptError(f"script {number}: a step has tool, and perhaps arguments and say")
    return Step(str(item["tool"]), item.get("arguments", {}), str(item.get("say", "")))


def next_step(scripts: Sequence[Script], messages: Sequence[dict[str, Any]]) -> Step:
    """The answer to a conversation. After a script's last step, and where no script matches, it gives up."""
    first = next((text_of(m) for m in messages if m.get("role") == "user"), "")
    script = next((s for s in scripts if all(text in first for text in s.match_all)), None)
    made = sum(1 for message in messages if is_call(message))
    if script is None or made >= len(script.steps):
        return GIVE_UP
    return script.steps[made]


def is_call(message: dict[str, Any]) -> bool:
    """Whether a message is an answer that called a tool, in either form."""
    if message.get("role") != "assistant":
        return False
    return bool(message.get("tool_calls")) or CALL_IN_TEXT.search(text_of(message)) is not None


def text_of(message: dict[str, Any]) -> str:
    """A message's text, whether it is one string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
