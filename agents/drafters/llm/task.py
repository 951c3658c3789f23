"""What one agent is asked: its target, and the opening of the conversation, which never exceeds its size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.drafters.llm.agent import opening
from agents.drafters.llm.form import Form
from agents.drafters.llm.text import as_data, cut_bytes, render
from agents.drafters.llm.tools import TOOLS
from agents.drafters.llm.workbench import Workbench
from agents.drafters.targets import module_class_of
from agents.types import Diagnosis, DraftContext, Example

OPENING_BYTES = 24_000
"""UTF-8 bytes of the opening: system prompt, task and tools, about 6,000 tokens."""

MAX_EXAMPLES, EXAMPLE_BYTES = 2, 2_000
MAX_REFUSALS, REFUSAL_BYTES = 8, 400


@dataclass(frozen=True)
class Target:
    """What one agent patches: an element-wise module class, or the model for what is left of its causes."""

    name: str
    form: Form
    causes: tuple[Diagnosis, ...]

    @property
    def stock_document(self) -> dict[str, Any] | None:
        """The stock module as a document, where a diagnosis brings it along."""
        return next((d.evidence.get("stock_document") for d in self.causes if "stock_document" in d.evidence), None)

    @property
    def source(self) -> str | None:
        """The stock source where a diagnosis brings it along; None to read it from its class."""
        given = self.stock_document
        return None if given is None else json.dumps(given)

    @property
    def diagnosis(self) -> str:
        """The causes as text."""
        return render("diagnosis", causes=[_without_long(d) for d in self.causes])


NOT_TOLD = frozenset({"stock_document", "reproducer"})
"""Evidence that tools give: the source, and the outcome of the reproducer."""


def _without_long(diagnosis: Diagnosis) -> Diagnosis:
    kept = {name: value for name, value in diagnosis.evidence.items() if name not in NOT_TOLD}
    return Diagnosis(diagnosis.failure, diagnosis.patterns, kept, diagnosis.no_patch)


def targets_of(diagnoses: Sequence[Diagnosis], context: DraftContext) -> list[Target]:
    """The element-wise module classes in order of appearance, then the model with all other causes, if it is known."""
    open_causes = [d for d in diagnoses if d.no_patch is None]
    names = dict.fromkeys(name for d in open_causes if (name := module_class_of(d)))
    found = [
        Target(name, Form.ELEMENTWISE, tuple(d for d in open_causes if module_class_of(d) == name)) for name in names
    ]
    others = tuple(d for d in open_causes if not module_class_of(d))
    if others and context.model_class is not None:
        found.append(Target(context.model_class, Form.MODEL, others))
    return found


def task_text(
    target: Target, context: DraftContext, number: int = 1, drafts: int = 1, room: int = OPENING_BYTES
) -> str:
    """The first message to the model: the diagnosis as data, refusals of earlier candidates, accepted examples.

    It has at most `room` UTF-8 bytes: the diagnosis is cut, the tool `show_diagnosis` gives it whole.
    """
    refused = [cut_bytes(text, REFUSAL_BYTES) for text in dict.fromkeys(context.rejected.values())]
    values: dict[str, Any] = {
        "target": target.name,
        "profile": context.profile,
        "dtype": context.dtype,
        "rejected": [as_data(text, "earlier refusal") for text in refused[-MAX_REFUSALS:]],
        "examples": [_example(e) for e in _examples(target, context)],
        "number": number,
        "drafts": drafts,
    }
    frame = len(render("task", diagnosis=as_data("", "diagnosis"), **values).encode())
    shown = cut_bytes(target.diagnosis, max(0, room - frame - 200))
    return render("task", diagnosis=as_data(shown, "diagnosis"), **values)


def _examples(target: Target, context: DraftContext) -> Sequence[Example]:
    return [] if context.examples is None else list(context.examples(target.causes))[:MAX_EXAMPLES]


def _example(example: Example) -> dict[str, str]:
    return {
        "cause": cut_bytes(" ".join(example.cause.split()), 200),
        "code": as_data(cut_bytes(example.code, EXAMPLE_BYTES), "accepted patch"),
    }


def room_for_task(bench: Workbench) -> int:
    """The bytes that system prompt and tools leave of the opening."""
    system = opening(bench, bench.limits, "")[0]["content"]
    return OPENING_BYTES - len(system.encode()) - len(json.dumps([tool.schema() for tool in TOOLS]).encode())


def opening_bytes(messages: Sequence[dict[str, Any]]) -> int:
    """The size of an opening, tools included."""
    tools = json.dumps([tool.schema() for tool in TOOLS])
    return sum(len(m["content"].encode()) for m in messages) + len(tools.encode())
