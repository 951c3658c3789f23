"""A candidate of an element-wise task judged: the gate's equivalence, then the device, as the op-level verdict does."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from adapters.document import build, validate
from adapters.errors import DocumentRefused as ElementwiseRefused
from agents.drafters.rules.device import cost_of
from agents.drafters.rules.documents import to_term
from agents.drafters.rules.terms import Call, subterms
from agents.types import Candidate
from pipeline.bench.device import device_refuses
from pipeline.bench.tasks import FormTask
from pipeline.verification.equivalence.elementwise import claims_of, judge_document
from pipeline.verification.measurements import EquivalenceResult

EQUAL = (EquivalenceResult.EXACT, EquivalenceResult.BOUNDED)


class Judgement(NamedTuple):
    """Whether the candidate solves the task, at which stage it fell and why; `cost_ns` where forms can be priced."""

    accepted: bool
    stage: str = ""
    reason: str = ""
    cost_ns: float | None = None
    seconds: float = 0.0


def judge_form(task: FormTask, candidate: Candidate, seed: int) -> Judgement:
    """Judges one candidate. `seed` draws the points; the drafter never sees it."""
    began = time.perf_counter()
    return _judge_form(task, candidate, seed)._replace(seconds=time.perf_counter() - began)


def _judge_form(task: FormTask, candidate: Candidate, seed: int) -> Judgement:
    patches = [p for p in candidate.to_dict()["patches"] if p["parameters"].get("module_class") == task.module_class]
    if len(patches) != 1 or "document" not in patches[0]["parameters"]:
        return Judgement(False, "form", "the candidate does not replace the module by one document")
    document, (claim,) = patches[0]["parameters"]["document"], claims_of(patches)
    try:
        result = judge_document(claim, task.stock, validate(document), seed)
    except ElementwiseRefused as error:
        return Judgement(False, "validation", str(error))
    if result.result not in EQUAL:
        return Judgement(False, "equivalence", f"{result.result}: {result.detail} {result.input_that_shows_it}")
    if refused := device_refuses(build(document), task):
        return Judgement(False, "device", refused)
    return Judgement(True, cost_ns=cost_ns(document))


def cost_ns(document: dict[str, Any]) -> float:
    """Simulated cost of a document: its distinct operations."""
    return sum(cost_of(part) for part in subterms(to_term(document)) if isinstance(part, Call))
