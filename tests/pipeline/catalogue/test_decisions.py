"""What becomes of a row of an imported catalogue: taken with which configuration, or dropped for which reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.catalogue.decisions import decide
from pipeline.catalogue.entry import CatalogueEntry, ConfigMapping, WeightsForm
from pipeline.catalogue.file_import import import_file

ROW: dict[str, Any] = {
    "rank": 1, "model_id": "a/x", "downloads": 7, "model_type": "bert", "architectures": ["BertModel"],
    "library": "sentence-transformers", "config_ref": "a/x", "config_confidence": "exact",
    "param_basis": "nominal", "reason": None,
}  # fmt: skip
LLAMA = {"config": {"model_type": "llama"}, "pooling": "mean", "note": "hub class adds a bidirectional mask"}


def _entry(folder: Path, row: dict[str, Any]) -> CatalogueEntry:
    (folder / "hub_configs.json").write_text(json.dumps({"a/x": {"config": {"model_type": "bert"}}, "near": LLAMA}))
    (folder / "c.jsonl").write_text(json.dumps({**ROW, **row}))
    (entry,) = import_file(folder / "c.jsonl")
    return entry


@pytest.mark.parametrize(
    ("row", "form", "kind"),
    [
        ({}, WeightsForm.UNKNOWN, None),
        ({"model_id": "a/x-GGUF"}, WeightsForm.GGUF, "no_native_weights"),
        ({"library": "llama.cpp"}, WeightsForm.GGUF, "no_native_weights"),
        ({"library": "llama.cpp", "param_basis": "exact count"}, WeightsForm.SAFETENSORS, None),
        ({"library": "transformers.js"}, WeightsForm.ONNX, "no_native_weights"),
        ({"library": "peft"}, WeightsForm.ADAPTER, "no_native_weights"),
        ({"library": "peft", "param_basis": "exact count"}, WeightsForm.ADAPTER, "no_native_weights"),
        ({"model_id": "mlx-community/x-bf16"}, WeightsForm.OTHER, "no_native_weights"),
        ({"model_id": "a/x-bnb-4bit"}, WeightsForm.UNKNOWN, "quantised"),
        ({"model_id": "a/x-W4A16-G128"}, WeightsForm.UNKNOWN, "quantised"),
        ({"model_id": "a/x-qat-q8_0-unquantized"}, WeightsForm.UNKNOWN, None),
        ({"model_id": "a/x-bitfit", "reason": "quantised or converted weights"}, WeightsForm.UNKNOWN, None),
        ({"param_basis": "exact count", "reason": "count of packed weights not comparable; quantised or converted "
          "weights", "model_id": "a/x-oQ6"}, WeightsForm.UNKNOWN, "quantised"),
    ],
)  # fmt: skip
def test_weights_that_stock_transformers_cannot_load_drop_a_row(
    row: dict[str, Any], form: WeightsForm, kind: str | None
) -> None:
    found = decide({**ROW, **row}, True)
    assert (found.weights_form, found.kind) == (form, kind)
    assert kind is None or found.reason


def test_a_row_stands_on_the_configuration_of_its_near_class_and_says_so(tmp_path: Path) -> None:
    near = _entry(tmp_path, {"config_ref": None, "near_config_ref": "near", "config_confidence": "none"})
    assert not near.dropped
    assert (near.config, near.mapping, near.pooling) == ({"model_type": "llama"}, ConfigMapping.NEAR, "mean")
    assert near.bidirectional


def test_a_class_of_the_repository_beside_a_stock_one_is_told_apart_from_a_native_one(tmp_path: Path) -> None:
    assert _entry(tmp_path, {}).mapping is ConfigMapping.NATIVE
    assert _entry(tmp_path, {"custom_code": True}).mapping is ConfigMapping.STOCK_FOR_REMOTE


@pytest.mark.parametrize("name", ["LlamaBidirectionalModel", "LlamaBiModel"])
def test_a_class_that_is_called_bidirectional_is_found(tmp_path: Path, name: str) -> None:
    assert _entry(tmp_path, {"architectures": [name]}).bidirectional
    assert not _entry(tmp_path, {"architectures": ["LlamaModel"]}).bidirectional


@pytest.mark.parametrize(
    ("row", "kind", "words"),
    [
        (
            {"reason": "unsupported: static embedding table, no transformer"},
            "unknown_architecture",
            "no patch is needed",
        ),
        ({"model_type": "new", "custom_code": True}, "unknown_architecture", "rewritten for the stock class gte"),
        ({"custom_code": True, "architectures": ["OwnModel"], "reason": "remote code"}, "remote_code", "OwnModel"),
        ({"reason": "config.json has no model_type (PEFT adapter)"}, "no_native_weights", "trained on"),
    ],
)
def test_a_row_without_a_configuration_has_a_precise_reason(row: dict[str, Any], kind: str, words: str) -> None:
    found = decide({**ROW, "config_ref": None, **row}, False)
    assert found.kind == kind
    assert words in str(found.reason)
