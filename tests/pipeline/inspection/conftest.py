"""Tiny checkpoints on disk, made of bytes: no torch, no safetensors package."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "I32": 4}

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


def _safetensors(tensors: Mapping[str, tuple[str, list[int]]]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        end = offset + math.prod(shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(offset)


@pytest.fixture
def safetensors_bytes() -> Callable[[Mapping[str, tuple[str, list[int]]]], bytes]:
    """Makes a valid safetensors file of zeros from name -> (dtype, shape)."""
    return _safetensors


@pytest.fixture
def config() -> dict[str, Any]:
    return json.loads(json.dumps(CONFIG))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder of config.json, small safetensors weights and the given files; None leaves one out."""

    def make(files: Mapping[str, Any] | None = None, **config_changes: Any) -> Path:
        folder = tmp_path / "checkpoint"
        merged = {k: v for k, v in {**CONFIG, **config_changes}.items() if v is not ...}
        weights = _safetensors({"w": ("F32", [40, 8]), "position_ids": ("I64", [1, 32])})
        for name, content in {"config.json": merged, "model.safetensors": weights, **(files or {})}.items():
            if content is not None:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return folder

    return make
