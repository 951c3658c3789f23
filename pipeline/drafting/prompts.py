"""How long the opening of a conversation is over the bench, and the digest of the prompts it is made of."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from agents.drafters.llm.agent import opening
from agents.drafters.llm.settings import Limits
from agents.drafters.llm.task import OPENING_BYTES, Target, opening_bytes, room_for_task, targets_of, task_text
from agents.drafters.llm.text import prompt_digest
from agents.drafters.llm.workbench import Workbench
from agents.errors import CandidateRefused
from agents.types import Candidate, DraftContext, Example

EXAMPLES = [Example("wrong_values of aten.pow.Tensor_Scalar", "x" * 4_000)] * 2
"""Two accepted patches of any length: what a service with a history adds."""


def size_of(target: Target, context: DraftContext) -> int:
    """UTF-8 bytes of system prompt, task and tools of one draft."""
    bench = Workbench(target.name, target.form, target.diagnosis, _no_build, None, Limits())
    task = task_text(target, context, room=room_for_task(bench))
    return opening_bytes(opening(bench, Limits(), task))


def opening_sizes() -> dict[str, Any]:
    """The sizes over the bench's public tasks, with two examples and a refusal each; 0.95 of them are within `p95`."""
    from pipeline.bench.tasks import load_tasks

    sizes = []
    for task in load_tasks():
        context = replace(
            task.context, model_class="transformers.models.bert.modeling_bert.BertModel",
            rejected={"0" * 64: "the gate refused it: wrong_values of P01, error 5e-01"},
            examples=lambda diagnoses: EXAMPLES,
        )  # fmt: skip
        sizes += [size_of(target, context) for target in targets_of(task.diagnoses, context)]
    cut_points = statistics.quantiles(sizes, n=20, method="inclusive")
    return {
        "digest": prompt_digest(), "openings": len(sizes), "median": int(statistics.median(sizes)),
        "p95": int(cut_points[-1]), "largest": max(sizes), "limit": OPENING_BYTES, "met": max(sizes) <= OPENING_BYTES,
    }  # fmt: skip


def _no_build(code: str, claim: Any) -> Candidate:
    raise CandidateRefused("sizes only")
