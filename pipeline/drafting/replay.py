"""A stored conversation again, without the model: its tool calls run in today's sandbox and gate, step by step.

What the tools say now is compared with what they said then; the first step that differs is named. Test runs draw points
of their own each time, so only pass or fail, kind and operation are compared of them, not the size of an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agents.drafters.llm.agent import Agent
from agents.drafters.llm.drafter import LlmDrafter
from agents.drafters.llm.form import Form
from agents.drafters.llm.messages import Answer, Charge, ToolCall, Usage, read_calls
from agents.drafters.llm.records import MemoryTrajectory
from agents.drafters.llm.resume import answer_from, furthest
from agents.drafters.llm.settings import Limits, LlmSettings
from agents.drafters.llm.task import Target
from agents.drafters.llm.workbench import Shared, Workbench
from agents.errors import AgentError, MalformedAnswer
from agents.types import DraftContext, diagnosis_from_dict
from pipeline.errors import BadInput

Step = dict[str, Any]
SIZE = re.compile(r"error size [0-9.e+-]+|'error': '[^']*'|\"error\": \"[^\"]*\"")
SHOWN = 600


@dataclass(frozen=True)
class Difference:
    """The first tool step that is not as it was: its number (from 1), the tool, and both texts."""

    step: int
    tool: str
    then: str
    now: str


@dataclass(frozen=True)
class Replayed:
    """How many tool calls were run again, and the first that differs; None if all are as they were."""

    model: str
    prompts_then: str | None
    prompts_now: str
    calls: int
    difference: Difference | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {**asdict(self), "identical": self.difference is None}


def replay(document: dict[str, Any], context: DraftContext) -> Replayed:
    """Run the tool calls of an exported conversation again. Raises BadInput if it is not one of a drafter."""
    from agents.drafters.llm.text import prompt_digest

    steps = furthest(document["steps"])
    if not steps or "task" not in steps[0]:
        raise BadInput("The trajectory holds no draft that could be run again.")
    agent = _agent(steps[0], context, document["model"])
    calls, difference = 0, None
    for number, tool, then, now in _again(steps, agent):
        calls += 1
        if without_sizes(then) != without_sizes(now):
            difference = Difference(number, tool, then[:SHOWN], now[:SHOWN])
            break
    return Replayed(document["model"], steps[0].get("prompts"), prompt_digest(), calls, difference)


def without_sizes(text: str) -> str:
    """The text without sizes of errors: they depend on the points that were drawn."""
    return SIZE.sub("error size", text)


def _again(steps: Sequence[Step], agent: Agent) -> Iterator[tuple[int, str, str, str]]:
    """Number, tool, text then and text now of every tool step."""
    waiting: list[ToolCall] = []
    for number, step in enumerate(steps, start=1):
        if step["kind"] == "answer":
            waiting = _calls(step)
        elif step["kind"] == "tool" and waiting:
            call = waiting.pop(0)
            then = str(step["messages"][-1].get("content", "")) if step["messages"] else ""
            yield number, call.name[:60], then, _use(agent, call)


def _calls(step: Step) -> list[ToolCall]:
    answer = answer_from({"charge": asdict(Charge(None, 0.0, 0)), **step})
    try:
        return read_calls(Answer(answer.message, Usage(), answer.charge, answer.finish_reason, extra=answer.extra))
    except MalformedAnswer:
        return []


def _use(agent: Agent, call: ToolCall) -> str:
    try:
        return agent.use(call).text
    except AgentError as error:
        return f"{error.code}: {error}"


def _agent(start: Step, context: DraftContext, model: str) -> Agent:
    task = start["task"]
    try:
        causes = tuple(diagnosis_from_dict(d) for d in task["diagnoses"])
        target = Target(task["target"], Form(task["form"]), causes)
        limits = Limits(**start["limits"]) if "limits" in start else Limits()
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"The trajectory's task cannot be read: {error!r}.") from error
    drafter = LlmDrafter(LlmSettings(limits=limits))
    bench: Workbench = drafter.workbench(target, causes, context, model, Shared(limits))
    return Agent(_NoModel(), bench, MemoryTrajectory(), limits)


class _NoModel:
    """Nobody: a replay asks no model."""

    name = "replay"

    def ask(self, *_: Any, **__: Any) -> Answer:
        """Never called."""
        raise AssertionError("a replay asks no model")
