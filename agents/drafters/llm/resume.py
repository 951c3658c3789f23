"""A draft that was cut off (its process was killed) goes on: answers that were paid and saved are not asked for again.

The tools are used again, in today's sandbox; as long as the conversation is the same, the stored answers continue it.
Where it differs, the model is asked. What the stored answers cost counts against the draft's limits once more, in the
ledger it is charged once: no call is made for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from agents.drafters.llm.messages import Answer, Charge, Usage

Step = dict[str, Any]


class Resumed:
    """The answers of an earlier conversation, given out while the messages before each are the same as now."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = furthest(steps)
        self._answers = answers_of(self.steps)

    def next_answer(self, messages: list[dict[str, Any]]) -> Answer | None:
        """The stored answer to exactly this conversation; None once there is none, or it differs."""
        if not self._answers:
            return None
        before, step = self._answers.pop(0)
        if before != messages:
            self._answers.clear()
            return None
        return answer_from(step)


def furthest(steps: Sequence[Step]) -> list[Step]:
    """The conversation with the most answers, the latest of equals: each attempt stores its own from the beginning."""
    begun = sorted({0, *(n for n, step in enumerate(steps) if step.get("kind") in ("start", "resumed"))})
    parts = [list(steps[a:b]) for a, b in pairwise([*begun, len(steps)])]
    return max(reversed(parts), key=lambda part: sum(s.get("kind") == "answer" for s in part))


def answers_of(steps: Sequence[Step]) -> list[tuple[list[dict[str, Any]], Step]]:
    """Each answer step with the messages that stood before it."""
    before: list[dict[str, Any]] = []
    found = []
    for step in steps:
        if step["kind"] == "answer":
            found.append((list(before), step))
        before += step["messages"]
    return found


def answer_from(step: Step) -> Answer:
    """The answer as it was saved."""
    return Answer(
        step["messages"][0],
        Usage(**step.get("usage", {})),
        Charge(**step["charge"]),
        step.get("finish_reason", ""),
        step.get("reservation"),
        step.get("extra") or {},
    )
