"""A local Hub with the real client: the client's offline switch is lifted, its connections are closed afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import huggingface_hub
import huggingface_hub.constants
import pytest

from pipeline.catalogue.hub import HubClient
from pipeline.catalogue.local_hub import HubModel, LocalHub

CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
}


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield
    huggingface_hub.close_session()


@pytest.fixture
def hub(online: None) -> Iterator[LocalHub]:
    with LocalHub() as server:
        yield server


@pytest.fixture
def client(hub: LocalHub) -> HubClient:
    return HubClient(hub.url)


@pytest.fixture
def serve(hub: LocalHub) -> Callable[..., HubModel]:
    """Adds a model of config.json and the given files (`NAME=None` leaves config.json out)."""

    def add(model_id: str, files: dict[str, bytes | None] | None = None, **facts: object) -> HubModel:
        content = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": b"x", **(files or {})}
        model = HubModel(model_id, {"main": {k: v for k, v in content.items() if v is not None}}, **facts)
        hub.add(model)
        return model

    return add
