"""A candidate of a structural task judged on its documents: every stage of the gate that needs no device.

It runs in the bench's child, which pretends a device. Near misses are the reference's documents with one mistake in
what the patches changed; a mistake that changes nothing on further draws is none, and another is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from agents.capture.errors import CaptureRefused
from agents.types import Candidate
from pipeline.bench.judge import Judgement
from pipeline.bench.structural import BOUNDS, ModelTask
from pipeline.verification.mutants.draw import Mutant, mutants
from pipeline.verification.mutants.survivors import Judgement as Again
from pipeline.verification.mutants.survivors import look_again_at_model
from pipeline.verification.selftest.entry import Stage
from pipeline.verification.selftest.judge import Candidate as Judged
from pipeline.verification.selftest.judge import (
    Refusal,
    bind_alone,
    capture_alone,
    check_documents,
    check_elementwise,
    check_equal,
    check_reach,
    check_source,
    check_structure,
    stock_of,
)
from pipeline.verification.selftest.subjects import SUBJECTS

MISSES, DRAWN, SEED = 3, 16, 11
"""Near misses of a task, mistakes drawn to find them, and what they are drawn from."""
FURTHER = (101, 102)
"""What is added to the seed for a second look."""


def judge_model(task: ModelTask, candidate: Candidate, seed: int) -> Judgement:
    """Judges one candidate. `seed` draws the inputs; the drafter never sees it."""
    began = time.perf_counter()
    if not task.named & {p.pattern for p in candidate.patches}:
        found = Judgement(False, "form", f"none of {', '.join(sorted(task.named))} is among the patches")
    else:
        found = _judge(task, candidate, seed)
    return found._replace(seconds=time.perf_counter() - began)


def _judge(task: ModelTask, candidate: Candidate, seed: int) -> Judgement:
    try:
        judged = judged_model(task, candidate)
    except CaptureRefused as refused:
        return Judgement(False, str(Stage.CAPTURE), str(refused))
    return judge_documents(judged, seed)


def judged_model(task: ModelTask, candidate: Candidate) -> Judged:
    """The candidate's documents, captured in this process: only patches of the library are captured here.

    Raises CaptureRefused.
    """
    from agents.capture.model import capture_patched

    patches = candidate.to_dict()["patches"]
    if any("source" in p["parameters"] for p in patches):
        raise ValueError("drafted code is captured in the sandbox only")
    judged = Judged(task.subject, patches)
    judged.documents = capture_patched(SUBJECTS[task.subject], patches, judged.cases)
    return judged


Check = Callable[[Judged], None]


def document_checks(seed: int) -> tuple[Check, ...]:
    """Every stage of the gate on captured documents that needs no device."""
    return (check_documents, check_structure, partial(check_reach, seed=seed), partial(check_equal, seed=seed))


def judge_documents(judged: Judged, seed: int) -> Judgement:
    """Captured documents by every stage of the gate that needs no device."""
    return passed(judged, document_checks(seed))


def passed(judged: Judged, checks: Sequence[Check]) -> Judgement:
    """The first refusal of the checks in order, or accepted."""
    try:
        for check in checks:
            check(judged)
    except Refusal as refusal:
        return Judgement(False, str(refusal.stage), refusal.reason)
    return Judgement(True)


class CodeJudged(NamedTuple):
    """The judgement of drafted code, with the documents that were captured of it."""

    judgement: Judgement
    documents: list[dict[str, Any]]


def judge_code(task: ModelTask, candidate: Candidate, seed: int) -> CodeJudged:
    """Drafted code by the stages of the gate, in the sandbox: rules on its source, capture, its documents, binding.

    Raises SandboxUnavailable.
    """
    began = time.perf_counter()
    judged = Judged(task.subject, candidate.to_dict()["patches"])
    before: tuple[Check, ...] = (check_source, partial(check_elementwise, seed=seed), capture_alone)
    found = passed(judged, (*before, *document_checks(seed), partial(bind_alone, seed=seed)))
    return CodeJudged(found._replace(seconds=time.perf_counter() - began), judged.documents)


class Miss(NamedTuple):
    """A near miss, and whether the judge accepted it."""

    mistake: str
    accepted: bool


def near_misses(task: ModelTask, seed: int) -> Iterator[Miss]:
    """The first MISSES mistakes in what the reference changed that change a value; fewer if no more are drawn."""
    right = judged_model(task, task.reference)
    before = stock_of(task.subject, seed).document
    found = 0
    for mutant in mutants(right.documents[0], SEED, DRAWN, before):
        one = replace(right, count=1, documents=[mutant.document], verdict=None)
        accepted = judge_documents(one, seed).accepted
        if accepted and changes_nothing(task, right.documents[0], mutant, seed):
            continue
        yield Miss(f"{mutant.kind}: {mutant.place}", accepted)
        found += 1
        if found == MISSES:
            return


def changes_nothing(task: ModelTask, document: dict[str, Any], mutant: Mutant, seed: int) -> bool:
    """Whether a mistake is none: an axis of size one, a copy, a fill beyond where exp is 0, a factor that cancels.

    Two further draws differ by rounding at most, or by less than the pattern's own bound.
    """
    subjects = [stock_of(task.subject, seed + more).drawn for more in FURTHER]
    again = look_again_at_model(document, mutant, subjects)
    return again.judgement is not Again.MISSED or again.error <= BOUNDS.get(task.pattern, 0.0)
