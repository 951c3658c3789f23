"""Scripts of the scripted endpoint: data that says what a deterministic "model" answers.

    scripts:
      - name: gelu-new-cube
        match: {all: ["aten.pow", "NewGELUActivation"]}     # texts that the system prompt and the task must hold
        steps:
          - {say: "I look at the source.", tool: read_source, arguments: {}}
          - {tool: submit, arguments: {code: "...", explanation: "..."}}

The step is chosen by the conversation alone: the first script whose texts all occur in its opening, and in it the step
whose number is the count of tool calls already made (of answers, with `advance: answers`). So the endpoint keeps no
state and repeats itself. After the last step it gives up, or with `then: repeat` says the last one again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

CALL_IN_TEXT = re.compile(r"^```tool[ \t]*$", re.MULTILINE)

DEFAULT_SCENARIO = "wrong_then_right"
COMMON = "common"
"""Answers to the doctor and to a reviewer's question: they come with every scenario."""


class ScriptError(ValueError):
    """A script file cannot be used; the message names the place."""


@dataclass(frozen=True)
class Step:
    """One answer: what is said, and the tool calls; `tool` and `arguments` are the first, `calls` what comes with it.

    `raw_arguments` stands in place of the arguments as it is, `times` repeats what is said, `status` is the HTTP status
    of a failure, `body` a whole answer as it is; `usage: false` leaves the tokens out, `delay_s` comes before all.
    """

    tool: str = ""
    arguments: dict[str, Any] | None = None
    say: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    raw_arguments: str | None = None
    times: int = 1
    reasoning: str | None = None
    refusal: str | None = None
    finish_reason: str | None = None
    usage: bool = True
    delay_s: float = 0.0
    status: int = 200
    body: str | None = None


@dataclass(frozen=True)
class Script:
    """Answers for the conversations whose opening holds every text of `match_all`."""

    name: str
    match_all: tuple[str, ...]
    steps: tuple[Step, ...]
    advance: str = "calls"
    then: str = "give_up"


GIVE_UP = Step(
    tool="submit",
    arguments={"outcome": "cannot_be_patched", "explanation": "no script of the scripted endpoint matches"},
    say="No script matches this diagnosis.",
)


def scenarios() -> list[str]:
    """The names of the scenarios that come with the package."""
    folder = files("agents.endpoint") / "scripts"
    names = [entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return sorted(set(names) - {COMMON})


def load_scripts(path: Path | None = None, scenario: str = DEFAULT_SCENARIO) -> tuple[Script, ...]:
    """The scripts of a YAML or JSON file; without one those of a scenario of the package. Raises ScriptError."""
    if path is not None:
        return _parse(_read(path))
    if scenario not in scenarios():
        raise ScriptError(f"{scenario!r} is not a scenario: choose {', '.join(scenarios())}")
    return _parse(_bundled(COMMON)) + _parse(_bundled(scenario))


def _parse(text: str) -> tuple[Script, ...]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScriptError(f"the script is not YAML: {error}") from error
    if not isinstance(data, dict) or set(data) != {"scripts"} or not isinstance(data["scripts"], list):
        raise ScriptError("a script file has the one key `scripts`, a list")
    return tuple(_script(item, number) for number, item in enumerate(data["scripts"], start=1))


def _bundled(name: str) -> str:
    return (files("agents.endpoint") / "scripts" / f"{name}.yaml").read_text(encoding="utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"the script {str(path)!r} cannot be read: {error}") from error


NEEDED, OPTIONAL = {"name", "match", "steps"}, {"advance", "then"}
CHOICES = {"advance": ("calls", "answers"), "then": ("give_up", "repeat")}


def _script(item: Any, number: int) -> Script:
    if not isinstance(item, dict) or not NEEDED <= set(item) <= NEEDED | OPTIONAL:
        raise ScriptError(f"script {number} needs exactly the keys name, match and steps, perhaps advance and then")
    texts = item["match"].get("all") if isinstance(item["match"], dict) else None
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t for t in texts):
        raise ScriptError(f"script {number}: match needs `all`, a list of texts")
    if not isinstance(item["steps"], list) or not item["steps"]:
        raise ScriptError(f"script {number}: steps is empty")
    how = {name: item[name] for name in OPTIONAL if name in item}
    if any(value not in CHOICES[name] for name, value in how.items()):
        raise ScriptError(f"script {number}: the choices are {CHOICES}")
    return Script(str(item["name"]), tuple(texts), tuple(_step(s, number) for s in item["steps"]), **how)


STEP_FIELDS = {field.name: field.type for field in fields(Step)}


def _step(item: Any, number: int) -> Step:
    if not isinstance(item, dict) or not item or not set(item) <= set(STEP_FIELDS):
        raise ScriptError(f"script {number}: a step has tool, or say, and perhaps {', '.join(sorted(STEP_FIELDS))}")
    if not isinstance(item.get("arguments", {}), dict) or not isinstance(item.get("calls", []), list):
        raise ScriptError(f"script {number}: a step has tool, and arguments as an object")
    return Step(**{**item, "calls": tuple(item.get("calls", ()))})


def next_step(scripts: Sequence[Script], messages: Sequence[dict[str, Any]]) -> Step:
    """The answer to a conversation. After a script's last step, and where no script matches, it gives up."""
    first = next((text_of(m) for m in messages if m.get("role") == "user"), "")
    system = next((text_of(m) for m in messages if m.get("role") == "system"), "") if first else ""
    script = next((s for s in scripts if all(text in system + first for text in s.match_all)), None)
    if script is None or not script.steps:
        return GIVE_UP
    counted = is_call if script.advance == "calls" else is_answer
    made = sum(1 for message in messages if counted(message))
    if made < len(script.steps):
        return script.steps[made]
    return script.steps[-1] if script.then == "repeat" else GIVE_UP


def is_answer(message: dict[str, Any]) -> bool:
    """Whether a message is an answer of the model."""
    return message.get("role") == "assistant"


def is_call(message: dict[str, Any]) -> bool:
    """Whether a message is an answer that called a tool, in either form."""
    if not is_answer(message):
        return False
    return bool(message.get("tool_calls")) or CALL_IN_TEXT.search(text_of(message)) is not None


def text_of(message: dict[str, Any]) -> str:
    """A message's text, whether it is one string or a list of parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
