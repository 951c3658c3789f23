"""Mutation of what is released: at most one in two hundred wrong patches is accepted, and survivors are judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from adapters.describe import describe, matches
from adapters.document import capture_module
from agents.capture.stock import config_of
from agents.capture.weights import random_stock
from pipeline.verification.equivalence import Claim, judge_document, subject_of
from pipeline.verification.equivalence.blocks import compare_documents
from pipeline.verification.measurements import EquivalenceResult
from pipeline.verification.mutants import mutants
from pipeline.verification.mutants.survivors import Score, look_again_at_model, look_again_at_module
from pipeline.verification.replay import DocumentRefused, validate_model

from ..captured import captured_by
from . import released

PER_PATCH, RATE, SEED = 20, 0.005, 20_260_801


def score_of(documents: dict[str, Any], entry: released.Released) -> Score:
    """Mutants of what only the patched document has, each against the stock model."""
    stock, patched, config = documents[entry.stock], documents[entry.label], released.config_for(entry)
    model = random_stock(config, seed=11)
    subject = subject_of(model, SEED)
    others = [subject_of(random_stock(config, seed=s), SEED + s) for s in (1, 2, 3)]
    score = Score(0, 0, ())
    for mutant in mutants(patched, SEED, PER_PATCH, before=documents[entry.unpatched]):
        try:
            validate_model(mutant.document, subject.tensors)
            refused = compare_documents(stock, mutant.document, subject).fault is not None
        except DocumentRefused:
            refused = True
        again = () if refused else (look_again_at_model(patched, mutant, others),)
        score = score.plus(Score(1, int(refused), again))
    return score


def shown(scores: dict[str, Score]) -> tuple[Score, str]:
    """All together, and what is to be read of them: every survivor with its judgement."""
    total, lines = Score(0, 0, ()), []
    for label, score in scores.items():
        lines.append(f"{label}: {score.tried} mutants, {score.refused} refused, {len(score.survivors)} accepted")
        lines += [f"    {survivor}" for survivor in score.survivors]
        total = total.plus(score)
    lines.append(f"in all {total.tried}, {total.refused} refused, {total.missed} missed: {total.false_accepts:.2%}")
    return total, "\n".join(["", *lines, ""])


@pytest.mark.parametrize("family", released.families())
def test_the_model_whose_patches_are_mutated_is_one_that_the_adapter_serves(family: str) -> None:
    entry = next(r for r in released.released_patches() if r.family == family)
    assert matches(entry.predicate, describe(config_of(released.config_for(entry))))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", released.families())
def test_mutants_of_every_released_patch_are_refused_or_judged_the_same(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = captured_by(released, tmp_path / "released.json", family)
    scores: dict[str, Score] = {}
    for entry in (r for r in released.released_patches() if r.family == family):
        scores[entry.label] = score_of(documents, entry)
    total, text = shown(scores)
    with capsys.disabled():
        sys.stdout.write(text)
    assert all(score.tried == PER_PATCH for score in scores.values())
    assert total.false_accepts <= RATE


@pytest.mark.long
def test_mutants_of_the_rules_gelu_are_refused_or_judged_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    total, text = shown({"gelu_new as products P01": score_of_gelu()})
    with capsys.disabled():
        sys.stdout.write(text)
    assert total.tried == PER_PATCH
    assert total.false_accepts <= RATE


def score_of_gelu() -> Score:
    from transformers.activations import NewGELUActivation

    from agents.drafters.rules.documents import without_powers

    stock = NewGELUActivation()
    document = without_powers(capture_module(stock))
    score = Score(0, 0, ())
    for mutant in mutants(document, SEED, PER_PATCH, before=capture_module(stock)):
        found = judge_document(Claim("P01"), stock, mutant.document, SEED).result
        refused = found is EquivalenceResult.NOT_EQUIVALENT
        again = () if refused else (look_again_at_module(document, mutant, (1, 2, 3)),)
        score = score.plus(Score(1, int(refused), again))
    return score
