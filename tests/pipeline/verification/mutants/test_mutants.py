"""Mutants differ in one node, come again from their seed, and are refused unless they are the same function."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.document import capture_module, validate
from agents.capture.case import Case
from agents.capture.model import capture_stock
from agents.capture.weights import random_stock
from agents.drafters.rules.documents import without_powers
from pipeline.verification.equivalence import Claim, judge_document, subject_of
from pipeline.verification.equivalence.blocks import compare_documents
from pipeline.verification.measurements import EquivalenceResult
from pipeline.verification.mutants import Mutant, mutants
from pipeline.verification.mutants.mistakes import MISTAKES
from pipeline.verification.mutants.sections import sections_of
from pipeline.verification.mutants.survivors import (
    Judgement,
    Score,
    Survivor,
    look_again_at_model,
    look_again_at_module,
)
from pipeline.verification.replay import validate_model

CONFIG = {
    "model_type": "modernbert", "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 2, "local_attention": 8, "max_position_embeddings": 40, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def gelu() -> Any:
    from transformers.activations import NewGELUActivation

    return NewGELUActivation()


@pytest.fixture(scope="module")
def module_document(gelu: Any) -> dict[str, Any]:
    return without_powers(capture_module(gelu))


@pytest.fixture(scope="module")
def model() -> Any:
    return random_stock(CONFIG, seed=3)


@pytest.fixture(scope="module")
def model_document() -> dict[str, Any]:
    return capture_stock(CONFIG, [Case(3, 16, "float32", ("input_ids", "attention_mask"))])[0]


def nodes(document: dict[str, Any]) -> list[str]:
    return [json.dumps(n, sort_keys=True) for s in sections_of(document) for n in s.nodes]


@pytest.mark.parametrize("which", ["module_document", "model_document"])
def test_a_mutant_differs_in_exactly_one_node(which: str, request: pytest.FixtureRequest) -> None:
    document = request.getfixturevalue(which)
    before = json.dumps(document)
    found = mutants(document, 1, 25)
    assert len(found) == 25
    for mutant in found:
        changed = [1 for a, b in zip(nodes(document), nodes(mutant.document), strict=True) if a != b]
        assert len(changed) == 1, mutant.place
    assert len({json.dumps(m.document, sort_keys=True) for m in found}) == 25
    assert json.dumps(document) == before


@pytest.mark.parametrize("which", ["module_document", "model_document"])
def test_one_seed_draws_the_same_and_another_others(which: str, request: pytest.FixtureRequest) -> None:
    document = request.getfixturevalue(which)
    assert mutants(document, 4, 12) == mutants(document, 4, 12)
    assert mutants(document, 4, 12) != mutants(document, 5, 12)


def test_every_kind_of_mistake_is_made_somewhere(
    module_document: dict[str, Any], model_document: dict[str, Any]
) -> None:
    kinds = {m.kind for d in (module_document, model_document) for m in mutants(d, 2, 60)}
    assert kinds >= set(MISTAKES) - {"dtype"}


def test_mutants_of_a_module_are_valid_documents(module_document: dict[str, Any]) -> None:
    for mutant in mutants(module_document, 3, 40):
        validate(mutant.document)


def test_most_mutants_of_a_model_pass_validation(model_document: dict[str, Any], model: Any) -> None:
    tensors = {n: t.detach() for n, t in [*model.named_parameters(), *model.named_buffers()]}
    for mutant in mutants(model_document, 3, 12):
        validate_model(mutant.document, tensors, placed=False)


def test_there_are_only_so_many_mutants_of_a_small_document() -> None:
    tiny = {"version": 1, "nodes": [{"op": "aten.relu.default", "args": [{"ref": 0}]}], "output": {"ref": 1}}
    found = mutants(tiny, 0, 100)
    assert 0 < len(found) < 10


def test_nodes_that_a_patch_brought_are_mutated_first() -> None:
    stock = {"version": 1, "nodes": [{"op": "aten.silu.default", "args": [{"ref": 0}]}], "output": {"ref": 1}}
    added = {"op": "aten.mul.Tensor", "args": [{"ref": 1}, 1.5]}
    patched = {"version": 1, "nodes": [*stock["nodes"], added], "output": {"ref": 2}}  # type: ignore[misc]
    first = mutants(patched, 6, 6, before=stock)
    assert [m.place.split(":")[0] for m in first[:3]] == ["document, node 1"] * 3
    assert {m.kind for m in mutants(patched, 6, 40, before=stock)} >= {"constant", "sign", "op swap"}


def test_forty_mutants_of_gelu_as_products_are_refused_or_the_same(gelu: Any, module_document: dict[str, Any]) -> None:
    score = Score(0, 0, ())
    for mutant in mutants(module_document, 8, 40):
        refused = judge_document(Claim("P01"), gelu, mutant.document, 1).result is EquivalenceResult.NOT_EQUIVALENT
        again = () if refused else (look_again_at_module(module_document, mutant, (2, 3)),)
        score = score.plus(Score(1, int(refused), again))
    assert score.tried == 40
    assert score.missed == 0, [str(s) for s in score.survivors]
    assert score.refused > 30


def test_mutants_of_a_model_are_refused_or_the_same(model: Any, model_document: dict[str, Any]) -> None:
    subject, others = subject_of(model, 1), [subject_of(random_stock(CONFIG, seed=9), 2)]
    score = Score(0, 0, ())
    for mutant in mutants(model_document, 8, 40):
        refused = compare_documents(model_document, mutant.document, subject).fault is not None
        again = () if refused else (look_again_at_model(model_document, mutant, others),)
        score = score.plus(Score(1, int(refused), again))
    assert score.missed == 0, [str(s) for s in score.survivors]
    assert score.refused > 25


def test_a_missed_mutant_is_called_missed(module_document: dict[str, Any], model: Any, model_document: Any) -> None:
    wrong = mutants(module_document, 1, 8)
    assert Judgement.MISSED in {look_again_at_module(module_document, m, (1,)).judgement for m in wrong}
    found = [look_again_at_model(model_document, m, [subject_of(model, 5)]) for m in mutants(model_document, 1, 8)]
    assert Judgement.MISSED in {s.judgement for s in found}


def test_the_rate_counts_only_mutants_that_compute_something_else() -> None:
    mutant = Mutant("sign", "somewhere", {})
    same, missed = Survivor(mutant, Judgement.SAME_BITS, 0.0), Survivor(mutant, Judgement.MISSED, 1.0)
    assert Score(100, 98, (same, missed)).false_accepts == pytest.approx(1 / 99)
    assert Score(3, 2, (same,)).false_accepts == 0
    with pytest.raises(ZeroDivisionError):
        _ = Score(1, 0, (same,)).false_accepts
