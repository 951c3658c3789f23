"""Models with heads: the base is adapted, the head stays on the CPU; generation and missing heads are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
    BertModel,
    DPRConfig,
    DPRQuestionEncoder,
    PreTrainedModel,
)

import adapters
from adapters import adapt, find
from adapters.errors import AlreadyAdapted, StillAdapted, WrongTask
from adapters.releases import lookup
from adapters.releases.manifest import Manifest, record_digests
from tests.adapters.conftest import COMMON, lively

PATCHES: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
    {"pattern": "P40", "parameters": {}},
    {"pattern": "P54", "parameters": {}},
]
CPU: dict[str, Any] = {"device": "cpu", "compile": False, "dtype": torch.float32}
HEADS = {
    "MaskedLM": (BertForMaskedLM, "logits"),
    "QuestionAnswering": (BertForQuestionAnswering, "start_logits"),
    "SequenceClassification": (BertForSequenceClassification, "logits"),
    "TokenClassification": (BertForTokenClassification, "logits"),
}


@pytest.fixture
def manifest() -> Any:
    model = BertModel(BertConfig(**COMMON))
    predicate = {"block": "transformers.models.bert.modeling_bert.BertLayer", "head_dim": 32}
    made = Manifest("tiny", "1", "tiny", "profile-2026-08", predicate, tuple(record_digests(model, PATCHES)))
    lookup.use_manifest(made)
    yield made
    lookup.forget_manifest(made)


@pytest.mark.parametrize("task", HEADS)
def test_each_head_answers_as_stock_and_undo_is_bit_exact(task: str, inputs: dict[str, torch.Tensor]) -> None:
    made, output = HEADS[task]
    model = lively(made(BertConfig(**COMMON)))
    weights = dict(model.named_parameters())
    with torch.no_grad():
        stock = model(**inputs)[output]
        with adapt(model, patches=PATCHES, **CPU) as handle:
            adapted = model(**inputs)[output]
            assert set(handle.report()["host"]) & {"cls", "qa_outputs", "classifier"}
        assert torch.equal(model(**inputs)[output], stock)
    real = inputs["attention_mask"].bool() if stock.ndim > 1 and stock.shape[1] == 9 else slice(None)
    assert torch.allclose(adapted[real], stock[real], atol=1e-4)
    assert all(p is weights[name] for name, p in model.named_parameters())


def test_the_head_is_cast_to_fp32_and_a_tied_weight_stays_one_object() -> None:
    model = lively(BertForMaskedLM(BertConfig(**COMMON))).half()
    table = model.bert.embeddings.word_embeddings.weight
    assert model.cls.predictions.decoder.weight is table
    with adapt(model, patches=PATCHES, **CPU):
        assert model.cls.predictions.decoder.weight.dtype == torch.float32
    assert model.cls.predictions.decoder.weight is table is model.bert.embeddings.word_embeddings.weight


def test_head_and_base_cannot_both_be_adapted() -> None:
    model = lively(BertForSequenceClassification(BertConfig(**COMMON)))
    with adapt(model, patches=PATCHES, **CPU):
        for whole in (model, model.bert):
            with pytest.raises(AlreadyAdapted, match="undo"):
                adapt(whole, patches=PATCHES, **CPU)
            with pytest.raises(StillAdapted, match="moved or cast"):
                whole.to(torch.float16)
    with adapt(model.bert, patches=PATCHES, **CPU), pytest.raises(AlreadyAdapted):
        adapt(model, patches=PATCHES, **CPU)


def test_a_shell_around_the_base_is_served_by_the_base_models_adapter(
    manifest: Manifest, inputs: dict[str, torch.Tensor]
) -> None:
    model = lively(DPRQuestionEncoder(DPRConfig(**COMMON)))
    with torch.no_grad():
        stock = model(**inputs).pooler_output
        assert find(model) == manifest
        with adapt(model, **CPU):
            assert torch.allclose(model(**inputs).pooler_output, stock, atol=1e-4)


def test_a_model_that_generates_is_the_wrong_task() -> None:
    model = BertLMHeadModel(BertConfig(**COMMON, is_decoder=True)).eval()
    with pytest.raises(WrongTask, match=r"BertLMHeadModel generates text.*AutoModel"):
        adapt(model, patches=PATCHES, **CPU)
    assert find(model) is None


def save(model: PreTrainedModel, folder: Path) -> str:
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("task", HEADS)
def test_auto_classes_load_and_adapt(
    task: str, manifest: Manifest, inputs: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    made, output = HEADS[task]
    stock = lively(made(BertConfig(**COMMON)))
    model = getattr(adapters, f"AutoSpyreModelFor{task}").from_pretrained(save(stock, tmp_path), **CPU)
    with torch.no_grad():
        assert torch.allclose(model(**inputs)[output][:, :1], stock(**inputs)[output][:, :1], atol=1e-4)
    assert model.spyre_handle.report()["adapter"]["digest"] == manifest.digest
    model.spyre_handle.undo()
    assert not hasattr(model, "spyre_handle")


def test_auto_model_gives_token_vectors(manifest: Manifest, inputs: dict[str, torch.Tensor], tmp_path: Path) -> None:
    stock = lively(BertModel(BertConfig(**COMMON)))
    model = adapters.AutoSpyreModel.from_pretrained(save(stock, tmp_path), **CPU)
    assert model(**inputs).last_hidden_state.shape == (3, 9, 64)
    with pytest.raises(TypeError, match="from_pretrained"):
        adapters.AutoSpyreModel()


def test_a_head_without_weights_is_the_wrong_task(manifest: Manifest, tmp_path: Path) -> None:
    folder = save(lively(BertModel(BertConfig(**COMMON))), tmp_path)
    with pytest.raises(WrongTask, match=r"no weights for the head.*classifier.*AutoSpyreModel"):
        adapters.AutoSpyreModelForSequenceClassification.from_pretrained(folder, **CPU)


def test_a_checkpoint_without_such_a_head_is_the_wrong_task(manifest: Manifest, tmp_path: Path) -> None:
    folder = save(lively(DPRQuestionEncoder(DPRConfig(**COMMON))), tmp_path)
    with pytest.raises(WrongTask, match="cannot be loaded with AutoModelForTokenClassification"):
        adapters.AutoSpyreModelForTokenClassification.from_pretrained(folder, **CPU)
