"""Models on a local Hub and a cache to fetch them into, with the real `huggingface_hub`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest

from pipeline.catalogue.hub import HubClient
from pipeline.catalogue.local_hub import HubModel, LocalHub
from pipeline.weights.cache import WeightsCache

CONFIG: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
}


def weights_of(rows: int) -> bytes:
    """A safetensors file of one fp32 tensor of `rows` x 8."""
    text = json.dumps({"w": {"dtype": "F32", "shape": [rows, 8], "data_offsets": [0, rows * 32]}}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(i % 251 for i in range(rows * 32))


@pytest.fixture
def weights() -> Callable[[int], bytes]:
    return weights_of


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with LocalHub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server
    huggingface_hub.close_session()


@pytest.fixture
def client(hub: LocalHub) -> HubClient:
    return HubClient(hub.url)


@pytest.fixture
def cache(tmp_path: Path) -> WeightsCache:
    return WeightsCache(tmp_path / "cache")


@pytest.fixture
def serve(hub: LocalHub) -> Callable[..., HubModel]:
    """Serves a good small model with the given files on top; None leaves one out, keywords change its config."""

    def add(model_id: str = "a/x", files: dict[str, bytes | None] | None = None, **changes: Any) -> HubModel:
        facts = {k: changes.pop(k) for k in ("gated",) if k in changes}
        content: dict[str, bytes | None] = {
            "config.json": json.dumps({**CONFIG, **changes}).encode(),
            "vocab.txt": b"one\ntwo\n",
            "model.safetensors": weights_of(40),
            "README.md": b"# x",
            **(files or {}),
        }
        model = HubModel(model_id, {"main": {k: v for k, v in content.items() if v is not None}}, **facts)
        hub.add(model)
        return model

    return add


@pytest.fixture
def stored(cache: WeightsCache) -> Callable[[], set[str]]:
    """Every file below the cache, locks aside."""

    def files() -> set[str]:
        found = (p.relative_to(cache.root).as_posix() for p in cache.root.rglob("*") if p.is_file())
        return {name for name in found if not name.startswith("locks/")}

    return files
