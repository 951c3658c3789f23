"""A candidate judged on its task: the gate's equivalence, then the device, as the op-level verdict does."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from adapters.document import build, validate
from adapters.errors import DocumentRefused as ElementwiseRefused
from agents.drafters.rules.device import cost_of
from agents.drafters.rules.documents import to_term
from agents.drafters.rules.terms import Call, subterms
from agents.types import Candidate
from pipeline.bench.structural import ModelTask
from pipeline.bench.tasks import FormTask, Task, dtype_of
from pipeline.verification.equivalence.elementwise import claims_of, judge_document
from pipeline.verification.measurements import EquivalenceResult
from pipeline.verification.selftest.judge import Candidate as Judged
from pipeline.verification.selftest.judge import Refusal, check_documents, check_equal, check_reach, check_structure

EQUAL = (EquivalenceResult.EXACT, EquivalenceResult.BOUNDED)


class Judgement(NamedTuple):
    """Whether the candidate solves the task, at which stage it fell and why; `cost_ns` where forms can be priced."""

    accepted: bool
    stage: str = ""
    reason: str = ""
    cost_ns: float | None = None
    seconds: float = 0.0


def judge(task: Task, candidate: Candidate, seed: int) -> Judgement:
    """Judges one candidate. `seed` draws the points and inputs; the drafter never sees it."""
    began = time.perf_counter()
    found = _judge_form(task, candidate, seed) if isinstance(task, FormTask) else _judge_model(task, candidate, seed)
    return found._replace(seconds=time.perf_counter() - began)


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


def device_refuses(module: nn.Module, task: FormTask) -> str:
    """What the device says of a module under the task's condition; "" if it runs it and no known defect meets it.

    An operation that the task names must be gone even where the profile has it: that is what its cause asks.
    """
    from sim_backend import capability

    left = {str(n.target) for n in getattr(getattr(module, "graph", None), "nodes", ())} & set(task.form.refused)
    if left:
        return f"{', '.join(sorted(left))} is still there"
    x = torch.empty(task.shape, dtype=dtype_of(task))
    report = capability(Stack(module), {"x": x}, task.profile, dtype=dtype_of(task), blocks=["layers.0"])
    return "; ".join(f"{f.op}: {f.message or f.kind}" for f in (*report.failures, *report.predicted, *report.fallbacks))


class Stack(nn.Module):
    """One module as the only block of a model."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([module])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's value."""
        y: torch.Tensor = self.layers[0](x)
        return y


def cost_ns(document: dict[str, Any]) -> float:
    """Simulated cost of a document: its distinct operations."""
    return sum(cost_of(part) for part in subterms(to_term(document)) if isinstance(part, Call))


def judged_model(task: ModelTask, candidate: Candidate) -> Judged:
    """The candidate's documents, captured in this process: only patches of the library are captured here."""
    from agents.capture.model import capture_patched
    from pipeline.verification.selftest.subjects import SUBJECTS

    patches = candidate.to_dict()["patches"]
    if any("source" in p["parameters"] for p in patches):
        raise ValueError("drafted code is captured in the sandbox only")
    judged = Judged(task.subject, patches)
    judged.documents = capture_patched(SUBJECTS[task.subject], patches, judged.cases)
    return judged


def _judge_model(task: ModelTask, candidate: Candidate, seed: int) -> Judgement:
    if task.pattern not in {p.pattern for p in candidate.patches}:
        return Judgement(False, "device", "the cause is still there")
    return judge_documents(judged_model(task, candidate), seed)


def judge_documents(judged: Judged, seed: int) -> Judgement:
    """Captured documents by every stage of the gate that needs no device."""
    checks = (check_documents, check_structure, partial(check_reach, seed=seed), partial(check_equal, seed=seed))
    try:
        for check in checks:
            check(judged)
    except Refusal as refusal:
        return Judgement(False, str(refusal.stage), refusal.reason)
    return Judgement(True)
