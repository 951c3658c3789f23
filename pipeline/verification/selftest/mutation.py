"""Mutants in the self-test: honest documents with one seeded mistake, judged as candidates are."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor

from agents.capture.case import Case
from agents.capture.model import capture_stock
from agents.capture.stock import stock_tensors
from pipeline.verification.equivalence.blocks import compare_documents
from pipeline.verification.equivalence.elementwise import Claim, judge_document
from pipeline.verification.measurements import EquivalenceResult
from pipeline.verification.mutants import Mutant, mutants
from pipeline.verification.replay import DocumentRefused, left_out, validate_model
from pipeline.verification.selftest.corpus.parameters import GELU_NEW, document
from pipeline.verification.selftest.judge import SHAPES, module_of, stock_of
from pipeline.verification.selftest.run import MUTANTS, REFUSE, Outcome
from pipeline.verification.selftest.subjects import SUBJECTS, stock_model

MODELS = ("bert", "qwen3")
"""Subjects whose own documents are mutated; a third of the mutants is of the element-wise document of gelu_new."""
KIND = "transformers.activations.NewGELUActivation"


def judge_mutants(count: int, seed: int) -> list[Outcome]:
    """`count` mutants drawn from `seed`. One that is accepted is judged again with other draws.

    Accepted twice it is the same function as far as can be measured, and listed as equivalent; accepted once only, it
    is a false accept.
    """
    share = count // (len(MODELS) + 1)
    found = [_module(m, seed) for m in mutants(document(GELU_NEW), seed, count - share * len(MODELS))]
    for name in MODELS:
        found += [_model(name, m, seed) for m in mutants(_document(name), seed, share)]
    return found


@cache
def _document(name: str) -> dict[str, Any]:
    """The subject's own document in fp32: what an honest candidate without patches would be on the host."""
    (found,) = capture_stock(SUBJECTS[name], [Case(*SHAPES[0], "float32")])
    return found


def _outcome(label: str, mutant: Mutant, first: str, second: str | None) -> Outcome:
    reason = first if first else (second or "equal under two draws")
    return Outcome(
        name=f"{label}: {mutant.kind} at {mutant.place}",
        group=MUTANTS,
        expected=REFUSE,
        accepted=not first,
        stage="refused" if first else "accepted",
        reason=reason[:300],
        equivalent=not first and not second,
    )


def _module(mutant: Mutant, seed: int) -> Outcome:
    first = _module_refusal(mutant, seed)
    return _outcome("gelu_new", mutant, first, None if first else _module_refusal(mutant, seed + 1))


def _module_refusal(mutant: Mutant, seed: int) -> str:
    found = judge_document(Claim("P01"), module_of("albert", KIND), mutant.document, seed)
    return "" if found.result is EquivalenceResult.EXACT else str(found.result)


def _model(name: str, mutant: Mutant, seed: int) -> Outcome:
    tensors = stock_tensors(stock_model(name))
    first = _model_refusal(name, mutant, tensors, seed)
    return _outcome(name, mutant, first, None if first else _model_refusal(name, mutant, tensors, seed + 1))


def _model_refusal(name: str, mutant: Mutant, tensors: dict[str, Tensor], seed: int) -> str:
    """Why the mutant is refused, "" if it is not."""
    stock = stock_of(name, seed)
    try:
        validate_model(mutant.document, tensors, placed=False)
        if missing := left_out(stock.document, mutant.document):
            return f"left out: {min(missing)}"
        found = compare_documents(stock.document, mutant.document, stock.drawn)
    except DocumentRefused as refused:
        return f"refused: {refused}"
    return str(found.fault) if found.fault else ""
