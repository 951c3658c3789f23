"""Structural and code patches: one answer per patch, from documents of the whole set and, where needed, of prefixes.

If the whole set is exact against stock, so is every patch as it stands in it (two mistakes that undo each other are
none). If it is not, the documents of growing prefixes are compared with one another, and each patch is held to its own
claim: a bounded patch lends its bound to no other. Casting (P56) has no part in this: in fp64 it is gone, and what it
costs is for the device oracles to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from agents.capture.stock import stock_tensors
from agents.drafters.rules.derivations import holds as derived
from agents.errors import CandidateRefused
from pipeline.verification.equivalence.blocks import NOTHING, Document, Found, Subject, compare_documents
from pipeline.verification.equivalence.draws import Tokens
from pipeline.verification.equivalence.elementwise import Claim, claims_of
from pipeline.verification.measurements import Equivalence, EquivalenceResult
from pipeline.verification.parts import is_causal, pad_id, plain_ids, vocabulary_of
from pipeline.verification.replay import Constants, DocumentRefused, Precision

CAST = "P56"
WHOLE = "the whole set"

WINDOWS = {"sliding_window": 1, "local_attention": 2, "attention_window": 2, "window_size": 1}
"""Fields of a config that window the attention, and by what they are divided to give the reach on one side."""

_HARMLESS = (EquivalenceResult.EXACT, EquivalenceResult.UNKNOWN)

Prefix = Callable[[int], Document]
"""The document of the first n patches, for the case of the first pair; captured when it is asked for.

Raises CandidateRefused or DocumentRefused where a part of a set cannot stand alone; then the set answers as a whole.
"""


def subject_of(model: Any, seed: int, constants: Constants | None = None) -> Subject:
    """The stock `model` (fp32, on the CPU) as blocks are compared with it, in fp64; `seed` is hidden.

    The tensors are widened once, so that the documents of both sides read the same ones. `constants` may hold those of
    the same model's documents, made before.
    """
    types = getattr(model.config, "type_vocab_size", 1) or 1
    size = vocabulary_of(model)
    tokens = Tokens(plain_ids(model.config, size), pad_id(model.config), types, is_causal(model), size)
    parameters = frozenset(name for name, _ in model.named_parameters(remove_duplicate=False))
    return Subject(_widened(stock_tensors(model)), parameters, tokens, seed, constants or Constants())


def _widened(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in fp64; one with several names stays one."""
    made: dict[tuple[int, torch.Size, torch.dtype], Tensor] = {}
    keys = {name: (t.data_ptr(), t.shape, t.dtype) for name, t in tensors.items()}
    for name, key in keys.items():
        if key not in made:
            made[key] = Precision.FP64.tensor(tensors[name])
    return {name: made[key] for name, key in keys.items()}


def reach_of(config: Any) -> int | None:
    """How far a window lets a token see on one side; None without a window. Shorter texts cannot show it."""
    if not getattr(config, "use_sliding_window", True):
        return None
    found = [getattr(config, name, None) for name in WINDOWS]
    sides = [
        (max(value) if isinstance(value, list | tuple) else value) // by
        for value, by in zip(found, WINDOWS.values(), strict=True)
        if value
    ]
    return max(sides) if sides else None


def judge_patches(
    patches: Sequence[Mapping[str, Any]],
    pairs: Sequence[tuple[Document, Document]],
    subject: Subject,
    config: Any,
    prefix: Prefix | None = None,
) -> tuple[Equivalence, ...]:
    """One answer per patch, in order; `patches` are `PatchDraft`s as plain data.

    A stored chain of rules from the stock formula to the patch's is replayed, and named in the method where it holds;
    what decides are the documents. Patches that hold a document of one number are part of the set and get no answer
    here: `judge_document` gives it. `pairs` are validated documents (stock, patched) of one case each. Raises
    ValueError without a pair.
    """
    if not pairs:
        raise ValueError("equivalence needs the documents of at least one case")
    answers = _judge_set(patches, pairs, subject, config, prefix)
    return tuple(
        _with_derivation(answer, p)
        for answer, p in zip(answers, [p for p in patches if not holds_document(p)], strict=True)
    )


def _with_derivation(answer: Equivalence, patch: Mapping[str, Any]) -> Equivalence:
    """The answer, its method naming the checked derivation of the pattern's formula where one is stored."""
    proof = tuple(patch.get("proof") or ())
    if not proof or not derived(patch["pattern"], patch["parameters"], proof):
        return answer
    return replace(answer, method=f"{answer.method}; formula by a rule chain of {len(proof)}, checked")


def _judge_set(
    patches: Sequence[Mapping[str, Any]],
    pairs: Sequence[tuple[Document, Document]],
    subject: Subject,
    config: Any,
    prefix: Prefix | None,
) -> tuple[Equivalence, ...]:
    claims = claims_of([dict(p) for p in patches])
    judged = [claim for claim, p in zip(claims, patches, strict=True) if not holds_document(p)]
    undecided = _undecided(pairs, config)
    found = compare_pairs(pairs, subject, None)
    if found.fault is None:
        return tuple(_exact(claim, found, undecided) for claim in judged)
    if prefix is None:
        return tuple(_as_the_set(claim, found) for claim in judged)
    try:
        answers = _by_prefix(claims, pairs[0][0], subject, prefix, undecided)
    except (CandidateRefused, DocumentRefused):
        return tuple(_as_the_set(claim, found) for claim in judged)
    lent = any(c.bound is not None and c not in judged for c in claims)
    if not lent and all(a.result in _HARMLESS for a in answers):
        return tuple(_as_the_set(claim, found) for claim in judged)
    return tuple(a for claim, a in zip(claims, answers, strict=True) if claim in judged)


def holds_document(patch: Mapping[str, Any]) -> bool:
    """Whether a patch replaces an element-wise module by a document of its own."""
    return "document" in patch["parameters"]


def compare_pairs(pairs: Sequence[tuple[Document, Document]], subject: Subject, bound: float | None) -> Found:
    """All cases together; the first that shows a fault ends it."""
    found = NOTHING
    for stock, patched in pairs:
        found = found.and_then(compare_documents(stock, patched, subject, bound))
        if found.fault is not None:
            break
    return found


def _undecided(pairs: Sequence[tuple[Document, Document]], config: Any) -> str:
    reach = reach_of(config)
    longest = max(stock["case"]["length"] for stock, _ in pairs)
    if reach is None or longest > reach + 1:
        return ""
    return f"no case is longer than the window: {longest} tokens, it reaches {reach} on a side"


def _exact(claim: Claim, found: Found, undecided: str, scope: str = WHOLE) -> Equivalence:
    result = EquivalenceResult.UNKNOWN if undecided else EquivalenceResult.EXACT
    return _answer(claim, result, found, _method(found, scope), detail=undecided)


def _as_the_set(claim: Claim, found: Found) -> Equivalence:
    """Without prefixes the mistake is somebody's, nobody knows whose."""
    assert found.fault is not None
    if claim.bound is not None and found.error <= claim.bound:
        detail = f"the set differs in {found.fault.place}; which patch does was not found out"
        return _answer(claim, EquivalenceResult.UNKNOWN, found, _method(found, WHOLE), detail=detail)
    return _answer(claim, EquivalenceResult.NOT_EQUIVALENT, found, _method(found, WHOLE))


def _by_prefix(
    claims: Sequence[Claim], stock: Document, subject: Subject, prefix: Prefix, undecided: str
) -> list[Equivalence]:
    answers, before = [], stock
    for number, claim in enumerate(claims, start=1):
        after = prefix(number)
        answers.append(_held_to_claim(claim, before, after, subject, undecided))
        before = after
    return answers


def _held_to_claim(claim: Claim, before: Document, after: Document, subject: Subject, undecided: str) -> Equivalence:
    found, method = compare_documents(before, after, subject), "against the set without it"
    if found.fault is None:
        return _exact(claim, found, undecided, method)
    if claim.bound is not None and claim.patch != CAST:
        bounded = compare_documents(before, after, subject, claim.bound)
        if bounded.fault is None:
            return _answer(claim, EquivalenceResult.BOUNDED, bounded, _method(bounded, method))
        found = bounded
    return _answer(claim, EquivalenceResult.NOT_EQUIVALENT, found, _method(found, method))


def _method(found: Found, scope: str) -> str:
    how = (
        "block by block, drawn activations and quiet weights" if found.paired else "whole runs, also with quiet weights"
    )
    return f"fp64, {how}, {scope}"


def _answer(claim: Claim, result: EquivalenceResult, found: Found, method: str, detail: str = "") -> Equivalence:
    wrong = found.fault if result is EquivalenceResult.NOT_EQUIVALENT else None
    return Equivalence(
        patch=claim.patch,
        claim=str(claim.exactness),
        result=result if found.rows or wrong else EquivalenceResult.UNKNOWN,
        method=method,
        points=found.rows,
        bound=found.error,
        claimed_bound=claim.bound,
        op=found.fault.place if found.fault else "",
        input_that_shows_it=str(wrong) if wrong else "",
        detail=f"differs by {found.error:.2g} of the row's largest value in {wrong.place}" if wrong else detail,
    )
