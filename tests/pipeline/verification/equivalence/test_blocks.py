"""Structural and code patches: what no model-level oracle sees is refused block by block, its honest twin is exact."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch

from pipeline.verification.equivalence.blocks import compare_documents, padding_of
from pipeline.verification.equivalence.judge import judge_patches, reach_of, subject_of
from pipeline.verification.measurements import Equivalence, EquivalenceResult
from pipeline.verification.replay import ModelReplay, Precision

from .twins import TWINS

pytestmark = pytest.mark.timeout(900)  # the child captures some twenty models before the first test
SEED = 7
CODE = {"pattern": "code", "parameters": {}}
Documents = dict[str, Any]
ModelOf = Callable[[str], Any]


NAMES = list(TWINS)


def judged(documents: Documents, model: Any, family: str, label: str, **claim: Any) -> Equivalence:
    pair = (documents[family], documents[label])
    (found,) = judge_patches([{**CODE, **claim}], [pair], subject_of(model, SEED), model.config)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_honest_code_is_exact(documents: Documents, twins: ModuleType, model_of: ModelOf, name: str) -> None:
    family = twins.TWINS[name].family
    found = judged(documents, model_of(family), family, f"{name}, honest")
    assert found.result is EquivalenceResult.EXACT, found
    assert found.points > 100
    assert "block by block" in found.method


@pytest.mark.parametrize("name", NAMES)
def test_wrong_code_is_refused_with_the_input_that_shows_it(
    documents: Documents, twins: ModuleType, model_of: ModelOf, name: str
) -> None:
    family, place = twins.TWINS[name].family, twins.TWINS[name].place
    found = judged(documents, model_of(family), family, name)
    assert found.result is EquivalenceResult.NOT_EQUIVALENT, found
    assert found.op.startswith(place)
    assert "token" in found.input_that_shows_it
    assert "stock gives" in found.input_that_shows_it


def test_the_released_patches_are_exact(documents: Documents, twins: ModuleType, model_of: ModelOf) -> None:
    model, patches = model_of("bert"), twins.released_patches()
    pair = (documents["bert"], documents["released"])
    answers = judge_patches(patches, [pair], subject_of(model, SEED), model.config)
    assert [a.patch for a in answers] == [p["pattern"] for p in patches]
    assert {a.result for a in answers} == {EquivalenceResult.EXACT}


def test_a_padded_document_can_stand_on_the_stock_side(documents: Documents, model_of: ModelOf) -> None:
    padded = documents["released"]
    assert padding_of(padded) == (0, 40)
    assert padding_of(documents["bert"]) == (0, 0)
    found = compare_documents(padded, copy.deepcopy(padded), subject_of(model_of("bert"), SEED))
    assert found.fault is None
    assert found.paired
    assert found.error == 0


def test_each_patch_is_held_to_its_own_claim(documents: Documents, model_of: ModelOf) -> None:
    model, name = model_of("bert"), "tanh gelu for erf gelu"
    growing = [documents[f"{name}, honest"], documents[name]]
    generous = {**CODE, "exactness": "bounded", "bound": 0.5}
    first, second = judge_patches(
        [generous, CODE],
        [(documents["bert"], growing[-1])],
        subject_of(model, SEED),
        model.config,
        lambda count: growing[count - 1],
    )
    assert first.result is EquivalenceResult.EXACT
    assert second.result is EquivalenceResult.NOT_EQUIVALENT
    assert "without it" in second.method


@pytest.mark.parametrize(("bound", "result"), [(1e-2, "bounded"), (1e-5, "not_equivalent")])
def test_a_bounded_claim_is_held_to_its_bound(
    documents: Documents, model_of: ModelOf, bound: float, result: str
) -> None:
    model, wrong = model_of("bert"), documents["tanh gelu for erf gelu"]
    claim = {**CODE, "exactness": "bounded", "bound": bound}
    (found,) = judge_patches(
        [claim], [(documents["bert"], wrong)], subject_of(model, SEED), model.config, lambda count: wrong
    )
    assert found.result == result
    assert found.bound is not None
    assert (found.bound <= bound) == (result == "bounded")


def test_a_document_in_the_set_is_judged_elsewhere_and_lends_nothing(documents: Documents, model_of: ModelOf) -> None:
    model, near = model_of("bert"), documents["tanh gelu for erf gelu"]
    document = {"pattern": "P01", "parameters": {"document": {}}, "exactness": "bounded", "bound": 1e-3}
    subject = subject_of(model, SEED)
    pair = [(documents["bert"], near)]
    (found,) = judge_patches([document, CODE], pair, subject, model.config, lambda count: near)
    assert found.patch == "code"
    assert found.result is EquivalenceResult.EXACT
    growing = [near, documents["scale dropped"]]
    pair = [(documents["bert"], growing[1])]
    (found,) = judge_patches([document, CODE], pair, subject, model.config, lambda count: growing[count - 1])
    assert found.result is EquivalenceResult.NOT_EQUIVALENT


def test_without_prefixes_an_exact_claim_answers_for_the_set(documents: Documents, model_of: ModelOf) -> None:
    model, name = model_of("bert"), "scale dropped"
    claims = [CODE, {**CODE, "exactness": "bounded", "bound": 10.0}]
    answers = judge_patches(claims, [(documents["bert"], documents[name])], subject_of(model, SEED), model.config)
    assert [a.result for a in answers] == [EquivalenceResult.NOT_EQUIVALENT, EquivalenceResult.UNKNOWN]


def test_a_window_no_text_reaches_beyond_is_unknown(documents: Documents, model_of: ModelOf) -> None:
    model = model_of("modernbert")
    config = copy.copy(model.config)
    assert reach_of(config) == 8
    config.local_attention = 64
    pair = (documents["modernbert"], documents["window off by one, honest"])
    (found,) = judge_patches([CODE], [pair], subject_of(model, SEED), config)
    assert found.result is EquivalenceResult.UNKNOWN
    assert "window" in found.detail


def test_a_patch_that_cannot_run_where_stock_does_is_refused(documents: Documents, model_of: ModelOf) -> None:
    model, broken = model_of("bert"), copy.deepcopy(documents["bert"])
    lookup = next(n for n in broken["skeleton"]["nodes"] if n.get("op") == "aten.embedding.default")
    ids_plus = {"op": "aten.add.Tensor", "args": [{"ref": 0}, 100], "kwargs": {}, "out": ["int64", [4, 24]]}
    broken["skeleton"]["nodes"][0] = ids_plus
    lookup["args"][1] = {"ref": len(broken["inputs"]) + len(broken["skeleton"]["parameters"])}
    found = compare_documents(documents["bert"], broken, subject_of(model, SEED))
    assert found.fault is not None
    assert "the patch raises" in str(found.fault)


def test_other_seeds_draw_other_values_and_one_seed_the_same(documents: Documents, model_of: ModelOf) -> None:
    model, wrong = model_of("bert"), documents["scale dropped"]
    faults = [str(compare_documents(documents["bert"], wrong, subject_of(model, s)).fault) for s in (1, 1, 2)]
    assert faults[0] == faults[1]
    assert faults[0] != faults[2]


def test_documents_of_two_cases_and_no_documents_at_all_are_errors(documents: Documents, model_of: ModelOf) -> None:
    model = model_of("bert")
    other = {**documents["bert"], "case": {"batch": 1, "length": 24, "dtype": "float32"}}
    with pytest.raises(ValueError, match="two cases"):
        compare_documents(documents["bert"], other, subject_of(model, SEED))
    with pytest.raises(ValueError, match="at least one case"):
        judge_patches([CODE], [], subject_of(model, SEED), model.config)


def test_a_changed_row_is_found_although_no_draw_meets_its_token(documents: Documents, model_of: ModelOf) -> None:
    model, wrong = model_of("bert"), documents["one row of the token table changed"]
    subject = subject_of(model, SEED)
    few = replace(subject, tokens=subject.tokens._replace(ids=subject.tokens.ids[:5]))
    found = compare_documents(documents["bert"], wrong, few)
    assert found.fault is not None
    assert found.fault.drawn == "every token of the vocabulary"


def test_without_a_border_the_whole_vocabulary_goes_through_whole_models(
    documents: Documents, model_of: ModelOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.verification.equivalence.blocks.find_border", lambda *_: None)
    subject = subject_of(model_of("bert"), SEED)
    few = replace(subject, tokens=subject.tokens._replace(ids=subject.tokens.ids[:5]))
    name = "one row of the token table changed"
    wrong = compare_documents(documents["bert"], documents[name], few)
    assert wrong.fault is not None
    assert wrong.fault.drawn == "every token of the vocabulary"
    honest = compare_documents(documents["bert"], documents[f"{name}, honest"], few)
    assert honest.fault is None
    assert not honest.paired


def test_replays_of_the_stock_document_read_the_same_fp64_tensors(documents: Documents, model_of: ModelOf) -> None:
    subject = subject_of(model_of("bert"), SEED)
    one, other = (
        {t.data_ptr() for t in ModelReplay(documents["bert"], subject.tensors, Precision.FP64).constants("cpu")}
        for _ in range(2)
    )
    assert one == other
    assert {t.dtype for t in subject.tensors.values() if t.is_floating_point()} == {torch.float64}
