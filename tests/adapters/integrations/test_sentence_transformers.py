"""`backend="spyre"` encodes as stock does; it is explicit, undoable, and refuses a moved target."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.model import BaseModel
from sentence_transformers.base.modules.transformer import Transformer
from transformers import AutoModel

from adapters import disable_sentence_transformers, enable_sentence_transformers
from adapters.describe import describe
from adapters.errors import PatchTargetMoved, SpyreNoAdapterError
from adapters.releases import lookup
from adapters.releases.manifest import Manifest, record_digests
from tests.adapters.test_remap import checkpoint

PATCHES: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
    {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}},
    {"pattern": "P54", "parameters": {}},
    {"pattern": "P61", "parameters": {}},
    {"pattern": "P80", "parameters": {"placement": "host"}},
    {"pattern": "P12", "parameters": {"placement": "host"}},
]
CPU = {"device": "cpu", "compile": False, "dtype": "float32"}
TEXTS = ["hello", "", "The quick brown fox.", "数据库 🎉", *("word " * n for n in (1, 62, 63, 64, 130))]


@pytest.fixture(scope="module")
def manifest(minilm_path: Path) -> Manifest:
    model = AutoModel.from_pretrained(minilm_path)
    words = describe(model)
    predicate = {word: words[word] for word in ("block", "head_dim", "hidden_act", "norm")}
    return Manifest("minilm", "1.0", "bert-32", "profile-2026-08", predicate, tuple(record_digests(model, PATCHES)))


@pytest.fixture(scope="module")
def stock(minilm_path: Path) -> np.ndarray:
    return SentenceTransformer(str(minilm_path), device="cpu").encode(TEXTS)


@pytest.fixture
def enabled() -> Iterator[None]:
    enable_sentence_transformers()
    yield
    disable_sentence_transformers()


def load(path: Path, manifest: Manifest | None, tmp_path: Path, **more: Any) -> SentenceTransformer:
    model_kwargs: dict[str, Any] = {"spyre_options": CPU}
    if manifest is not None:
        (tmp_path / "m.json").write_text(json.dumps(manifest.to_dict()))
        model_kwargs["spyre_manifest"] = str(tmp_path / "m.json")
    return SentenceTransformer(str(path), backend="spyre", model_kwargs=model_kwargs, **more)


@pytest.mark.usefixtures("enabled")
def test_encode_equals_stock(minilm_path: Path, manifest: Manifest, stock: np.ndarray, tmp_path: Path) -> None:
    pipeline = load(minilm_path, manifest, tmp_path)
    vectors = pipeline.encode(TEXTS, batch_size=4)
    assert (vectors.shape, vectors.dtype) == (stock.shape, np.float32)
    assert float((vectors * stock).sum(axis=1).min()) > 0.99999
    assert pipeline.spyre_handles[0].report()["adapter"]["name"] == "minilm"


@pytest.mark.usefixtures("enabled")
def test_other_modules_stay_on_the_host_in_fp32_on_every_call(
    minilm_path: Path, manifest: Manifest, stock: np.ndarray, tmp_path: Path
) -> None:
    pipeline = load(minilm_path, manifest, tmp_path)
    pipeline.append(torch.nn.Identity())
    pipeline[1].dense = torch.nn.Linear(2, 2).half()
    weight = pipeline[0].model.encoder.layer[0].attention.self.query.weight
    pipeline.half()
    pipeline.encode(TEXTS[:1])
    assert pipeline[1].dense.weight.dtype == torch.float32
    assert pipeline[0].model.encoder.layer[0].attention.self.query.weight is weight


@pytest.mark.usefixtures("enabled")
def test_undo_makes_the_pipeline_stock(
    minilm_path: Path, manifest: Manifest, stock: np.ndarray, tmp_path: Path
) -> None:
    pipeline = load(minilm_path, manifest, tmp_path)
    pipeline.spyre_handles[0].undo()
    assert np.array_equal(pipeline.encode(TEXTS), stock)
    assert pipeline.to(torch.float64)[0].model.dtype == torch.float64


@pytest.mark.usefixtures("enabled")
def test_adapter_is_found_when_none_is_given(minilm_path: Path, manifest: Manifest, tmp_path: Path) -> None:
    lookup.use_manifest(manifest)
    try:
        pipeline = load(minilm_path, None, tmp_path)
    finally:
        lookup.forget_manifest(manifest)
    assert pipeline.spyre_handles[0].report()["adapter"]["digest"] == manifest.digest


@pytest.mark.usefixtures("enabled")
def test_no_adapter_is_one_sentence_with_the_remedy(
    minilm_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "bundled_manifests", list)
    with pytest.raises(SpyreNoAdapterError, match="request one from your adapter factory"):
        load(minilm_path, None, tmp_path)


@pytest.mark.usefixtures("enabled")
def test_the_torch_backend_is_untouched(minilm_path: Path, stock: np.ndarray) -> None:
    assert np.array_equal(SentenceTransformer(str(minilm_path), device="cpu").encode(TEXTS), stock)


def test_nothing_is_wrapped_before_enabling_and_after_disabling(minilm_path: Path) -> None:
    before = Transformer.__dict__["_load_model"], BaseModel.__dict__["_post_init"]
    enable_sentence_transformers()
    enable_sentence_transformers()
    assert Transformer.__dict__["_load_model"] is not before[0]
    disable_sentence_transformers()
    assert (Transformer.__dict__["_load_model"], BaseModel.__dict__["_post_init"]) == before
    with pytest.raises(ValueError, match="Unsupported backend 'spyre'"):
        SentenceTransformer(str(minilm_path), backend="spyre")


def test_a_moved_target_is_refused_and_nothing_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def _load_model(self: Any, path: str) -> None:
        """Another release's method."""

    monkeypatch.setattr(Transformer, "_load_model", _load_model)
    with pytest.raises(PatchTargetMoved, match="_load_model"):
        enable_sentence_transformers()
    assert Transformer.__dict__["_load_model"] is _load_model


@pytest.mark.usefixtures("enabled")
def test_a_checkpoint_that_a_stock_class_serves_under_another_name_is_encoded(
    minilm_path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    model = checkpoint(folder, vocab_size=30_522)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        if (minilm_path / name).is_file():
            shutil.copy(minilm_path / name, folder / name)
    patches = [{"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}}, {"pattern": "P45"}]
    words = describe(model)
    recorded = tuple(record_digests(model, patches))
    manifest = Manifest("gte", "1.0", "gte", "profile-2026-08", {"block": words["block"]}, recorded)
    pipeline = load(folder, manifest, tmp_path)
    assert type(pipeline[0].model).__name__ == "GteModel"
    encoded = pipeline[0].tokenizer(TEXTS[:1], return_tensors="pt")
    with torch.no_grad():
        tokens = model(encoded["input_ids"], attention_mask=encoded["attention_mask"]).last_hidden_state
    assert np.allclose(pipeline.encode(TEXTS[:1])[0], tokens.mean(dim=1)[0].numpy(), atol=1e-5)
