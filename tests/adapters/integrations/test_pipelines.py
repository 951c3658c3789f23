"""Every sentence-transformers module, prompt, truncation and CrossEncoder gives with backend "spyre" what stock gives.

The patched CPU run stands for the device here, so that differences are the integration's; the device's own are
measured in tests/adapters/test_on_device.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

from adapters import disable_sentence_transformers, enable_sentence_transformers
from adapters.errors import StillAdapted, UndoneOutOfOrder
from adapters.releases.manifest import Manifest, record_digests
from tests.adapters.conftest import COMMON, lively
from tests.adapters.test_heads import PATCHES

OPTIONS = {"device": "cpu", "compile": False, "dtype": "float32"}
MODES = ("cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean")
CONFIG = {**COMMON, "vocab_size": 30522}
TEXTS = [
    "hello",
    "",
    "数据库 🎉",
    "Der schnelle braune Fuchs springt.",
    *("word " * n for n in (1, 61, 62, 63, 120, 300)),
]


@pytest.fixture
def enabled() -> Iterator[None]:
    enable_sentence_transformers()
    yield
    disable_sentence_transformers()


@pytest.fixture(scope="module")
def kwargs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    predicate = {"block": "transformers.models.bert.modeling_bert.BertLayer", "head_dim": 32}
    recorded = tuple(record_digests(BertModel(BertConfig(**CONFIG)), PATCHES))
    path = tmp_path_factory.mktemp("manifest") / "m.json"
    path.write_text(json.dumps(Manifest("tiny", "1", "tiny", "profile-2026-08", predicate, recorded).to_dict()))
    return {"spyre_manifest": str(path), "spyre_options": OPTIONS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, minilm_path: Path) -> Path:
    """A tiny BERT with MiniLM's tokenizer; its longest input is 128 tokens."""
    path = tmp_path_factory.mktemp("tiny")
    lively(BertModel(BertConfig(**CONFIG))).save_pretrained(path)
    AutoTokenizer.from_pretrained(minilm_path).save_pretrained(path)
    return path


def both(
    folder: Path,
    kwargs: dict[str, Any],
    make: Callable[[Transformer], list[torch.nn.Module]],
    tmp_path: Path,
    **more: Any,
) -> tuple[SentenceTransformer, SentenceTransformer]:
    """(stock, adapted) pipelines of the same modules, the second loaded from the folder of the first."""
    transformer = Transformer(str(folder), max_seq_length=128)
    stock = SentenceTransformer(modules=make(transformer), device="cpu", **more)
    stock.save(str(tmp_path / "saved"))
    adapted = SentenceTransformer(str(tmp_path / "saved"), backend="spyre", model_kwargs=kwargs)
    return stock, adapted


def nearest(left: np.ndarray, right: np.ndarray) -> float:
    """The smallest cosine between rows."""
    product = (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    return float(product.min())


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("mode", [*MODES, ("mean", "cls")], ids=str)
def test_each_pooling_mode(mode: Any, folder: Path, kwargs: dict[str, Any], tmp_path: Path) -> None:
    stock, adapted = both(folder, kwargs, lambda t: [t, Pooling(64, pooling_mode=mode)], tmp_path)
    assert nearest(stock.encode(TEXTS), adapted.encode(TEXTS)) > 0.99999


@pytest.fixture
def whole(folder: Path, kwargs: dict[str, Any], tmp_path: Path, enabled: None) -> tuple[Any, Any]:
    """Transformer, mean, Dense and Normalize, with two prompts."""

    def modules(transformer: Transformer) -> list[torch.nn.Module]:
        torch.manual_seed(5)
        return [transformer, Pooling(64, pooling_mode="mean"), Dense(64, 32), Normalize()]

    return both(folder, kwargs, modules, tmp_path, prompts={"query": "find: ", "document": "text: "})


def test_dense_normalize_and_batches_do_not_change_the_answer(whole: tuple[Any, Any]) -> None:
    stock, adapted = whole
    expected = stock.encode(TEXTS)
    assert nearest(expected, adapted.encode(TEXTS, batch_size=3)) > 0.99999
    alone = np.concatenate([adapted.encode([text]) for text in TEXTS])
    assert np.allclose(alone, adapted.encode(TEXTS), atol=1e-5)
    assert np.allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-5)
    assert adapted.encode("one text").shape == (32,)
    assert adapted.encode([]).shape == stock.encode([]).shape


@pytest.mark.parametrize("side", ["right", "left"])
def test_both_paddings_give_the_same_vectors(side: str, whole: tuple[Any, Any]) -> None:
    stock, adapted = whole
    for pipeline in whole:
        pipeline.tokenizer.padding_side = side
    assert nearest(stock.encode(TEXTS), adapted.encode(TEXTS)) > 0.99999


def test_prompts_truncation_and_similarity(whole: tuple[Any, Any]) -> None:
    stock, adapted = whole
    for method in ("encode_query", "encode_document"):
        assert nearest(getattr(stock, method)(TEXTS), getattr(adapted, method)(TEXTS)) > 0.99999
    assert not np.allclose(adapted.encode_query(TEXTS[:1]), adapted.encode(TEXTS[:1]), atol=1e-3)
    short = adapted.encode(TEXTS, truncate_dim=8)
    assert short.shape == (len(TEXTS), 8)
    assert nearest(stock.encode(TEXTS, truncate_dim=8), short) > 0.9999
    left, right = (p.similarity(p.encode(TEXTS), p.encode(TEXTS[:3])) for p in whole)
    assert torch.allclose(left, right, atol=1e-4)


def test_beyond_the_maximum_is_truncated_as_stock_does(whole: tuple[Any, Any]) -> None:
    stock, adapted = whole
    assert adapted.max_seq_length == stock.max_seq_length == 128
    long, longer = "word " * 200, "word " * 400
    assert np.array_equal(adapted.encode([long]), adapted.encode([longer]))
    assert nearest(stock.encode([longer]), adapted.encode([longer])) > 0.99999


def test_token_embeddings_and_tensors(whole: tuple[Any, Any]) -> None:
    adapted = whole[1]
    left, right = (p.encode(TEXTS[:4], output_value="token_embeddings") for p in whole)
    assert [t.shape for t in left] == [t.shape for t in right]
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(left, right, strict=True))
    assert adapted.encode(TEXTS[:2], convert_to_tensor=True).device.type == "cpu"


def test_an_adapted_pipeline_is_saved_as_stock_and_not_copied(whole: tuple[Any, Any], tmp_path: Path) -> None:
    stock, adapted = whole
    adapted.save(str(tmp_path / "again"))
    again = SentenceTransformer(str(tmp_path / "again"), device="cpu")
    assert np.array_equal(again.encode(TEXTS), stock.encode(TEXTS))
    with pytest.raises(StillAdapted, match="load it once more"):
        copy.deepcopy(adapted)
    adapted.spyre_handles[0].undo()
    assert np.array_equal(copy.deepcopy(adapted).encode(TEXTS), stock.encode(TEXTS))


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("labels", [1, 3])
def test_cross_encoder(labels: int, folder: Path, kwargs: dict[str, Any], minilm_path: Path, tmp_path: Path) -> None:
    lively(BertForSequenceClassification(BertConfig(**CONFIG, num_labels=labels))).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    pairs = [("hello", text) for text in TEXTS]
    stock = CrossEncoder(str(tmp_path), device="cpu", max_length=128)
    adapted = CrossEncoder(str(tmp_path), backend="spyre", max_length=128, model_kwargs=kwargs)
    expected = stock.predict(pairs)
    assert np.allclose(adapted.predict(pairs, batch_size=4), expected, atol=1e-4)
    assert "classifier" in adapted.spyre_handles[0].report()["host"]
    if labels == 1:
        ranked = [[hit["corpus_id"] for hit in encoder.rank("hello", TEXTS)] for encoder in (stock, adapted)]
        assert ranked[0] == ranked[1]
    adapted.spyre_handles[0].undo()
    assert np.array_equal(adapted.predict(pairs), expected)


def test_disabling_out_of_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    enable_sentence_transformers()
    ours = Transformer.__dict__["_load_model"]
    Transformer._load_model = lambda *a, **k: ours(*a, **k)  # type: ignore[method-assign]
    with pytest.raises(UndoneOutOfOrder, match=r"Transformer\._load_model was changed"):
        disable_sentence_transformers()
    Transformer._load_model = ours  # type: ignore[method-assign]
    disable_sentence_transformers()
    assert Transformer.__dict__["_load_model"] is not ours
