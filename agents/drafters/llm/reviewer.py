"""A second opinion on an accepted patch: one question in a conversation of its own, which holds no author's opinion.

It only advises: its text is shown to the person who decides, and neither gate nor state ever read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agents.drafters.llm.agent import Model
from agents.drafters.llm.messages import THOUGHT, Answer
from agents.drafters.llm.task import Target
from agents.drafters.llm.text import as_data, cut, render
from agents.drafters.targets import NoSource, read_class_source
from agents.errors import AgentError, EndpointProblem
from agents.types import DraftContext, TrajectoryStore

MAX_CONCERNS, MAX_SENTENCE = 5, 400
SECONDS = 120.0
OBJECT = re.compile(r"\{.*\}", re.DOTALL)

Advice = dict[str, Any]


def advise(model: Model, target: Target, code: str, context: DraftContext, record: TrajectoryStore) -> Advice:
    """What the model has to say: `concerns` and `summary`, or `unknown` with the reason. Never raises for an answer."""
    messages = question(target, code, context)
    name = {"kind": "start", "turn": 0, "model": model.name, "role": "reviewer", "target": target.name}
    trajectory = record({**name, "messages": messages})

    def keep(answer: Answer) -> None:
        record(
            {
                "kind": "answer",
                "turn": 1,
                "messages": [answer.message],
                "tokens": answer.usage.total,
                "cost_usd": answer.charge.cost_usd,
                "reservation": answer.reservation,
            }
        )

    try:
        answer = model.ask(messages, [], SECONDS, keep)
        advice = read_advice(str(answer.message.get("content") or ""))
    except EndpointProblem as error:
        advice = {"unknown": str(error)[:MAX_SENTENCE]}
    except AgentError as error:
        advice = {"unknown": f"no advice was asked for: {error}"[:MAX_SENTENCE]}
    record({"kind": "end", "turn": 1, "messages": [], "outcome": "advice", "reason": json.dumps(advice)})
    return {**advice, "model": model.name, "trajectory": trajectory}


def question(target: Target, code: str, context: DraftContext) -> list[dict[str, Any]]:
    """The conversation: what failed, the stock source, the patch. The author's explanation and claim are left out."""
    source = target.source
    if source is None:
        try:
            source = read_class_source(target.name)
        except NoSource as error:
            source = str(error)
    task = render(
        "review_task",
        target=target.name,
        profile=context.profile,
        dtype=context.dtype,
        form=target.form,
        diagnosis=as_data(target.diagnosis, "diagnosis", 6_000),
        source=as_data(source, target.name, 8_000),
        code=as_data(code, "patch"),
    )
    return [{"role": "system", "content": render("review_system")}, {"role": "user", "content": task}]


def read_advice(text: str) -> Advice:
    """The JSON object of an answer; what is not one is unknown, not a lack of concerns."""
    found = OBJECT.search(THOUGHT.sub("", text))
    try:
        data = json.loads(found.group()) if found else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("concerns"), list):
        return {"unknown": "the answer holds no advice"}
    return {"concerns": _sentences(data["concerns"]), "summary": cut(str(data.get("summary", "")), MAX_SENTENCE)}


def _sentences(values: Sequence[Any]) -> list[str]:
    return [cut(str(value), MAX_SENTENCE) for value in values[:MAX_CONCERNS]]
