"""Pooling modes and CrossEncoder with the bundled adapter, on the simulated device itself: what stock gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

from adapters import disable_sentence_transformers, enable_sentence_transformers
from tests.adapters.conftest import COMMON, lively

CONFIG = {**COMMON, "vocab_size": 30522, "hidden_size": 128}
MODES = ("cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean")
TEXTS = ["hello", "", "数据库 🎉", "Der schnelle braune Fuchs springt.", "word " * 50]
DIFFERS, AGREES = 0.0, 0.999


@pytest.fixture(scope="module")
def enabled() -> Iterator[None]:
    enable_sentence_transformers()
    yield
    disable_sentence_transformers()


@pytest.fixture(scope="module")
def pipelines(enabled: None, tmp_path_factory: pytest.TempPathFactory, minilm_path: Path) -> Iterator[tuple[Any, Any]]:
    """(stock, adapted) of one tiny BERT with heads of 64; the adapted one is compiled once for all modes."""
    folder = tmp_path_factory.mktemp("device")
    lively(BertModel(BertConfig(**CONFIG))).save_pretrained(folder / "bert")
    AutoTokenizer.from_pretrained(minilm_path).save_pretrained(folder / "bert")
    transformer = Transformer(str(folder / "bert"), max_seq_length=128)
    stock = SentenceTransformer(modules=[transformer, Pooling(128, pooling_mode="mean"), Normalize()], device="cpu")
    stock.save(str(folder / "saved"))
    adapted = SentenceTransformer(str(folder / "saved"), backend="spyre")
    yield stock, adapted
    adapted.spyre_handles[0].undo()


@pytest.fixture
def no_fallbacks() -> Iterator[None]:
    torch.spyre.reset_fallback_counts()
    yield
    found = torch.spyre.fallback_counts()
    torch.spyre.reset_fallback_counts()
    assert found == {}


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("mode", MODES)
def test_each_pooling_mode_on_the_device(mode: str, pipelines: tuple[Any, Any]) -> None:
    for pipeline in pipelines:
        pipeline[1] = Pooling(128, pooling_mode=mode)
    stock, adapted = (p.encode(TEXTS, batch_size=len(TEXTS)) for p in pipelines)
    assert np.abs(stock - adapted).max() > DIFFERS, "the device computed nothing"
    assert float((stock * adapted).sum(axis=1).min()) > AGREES


@pytest.mark.usefixtures("no_fallbacks", "enabled")
def test_a_cross_encoder_ranks_on_the_device_as_stock_does(minilm_path: Path, tmp_path: Path) -> None:
    lively(BertForSequenceClassification(BertConfig(**CONFIG, num_labels=1))).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(minilm_path).save_pretrained(tmp_path)
    stock = CrossEncoder(str(tmp_path), device="cpu", max_length=128)
    adapted = CrossEncoder(str(tmp_path), backend="spyre", max_length=128)
    pairs = [("hello", text) for text in TEXTS]
    expected, found = (encoder.predict(pairs, batch_size=len(pairs)) for encoder in (stock, adapted))
    adapted.spyre_handles[0].undo()
    assert np.abs(expected - found).max() > DIFFERS
    assert np.allclose(found, expected, atol=0.02)
    assert np.argsort(found).tolist() == np.argsort(expected).tolist()
