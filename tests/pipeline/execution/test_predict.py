"""A forecast is what the first two stages say: supported with the adapter that matches, else what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.catalogue.entry import CatalogueEntry
from pipeline.execution.check import matching_manifest
from pipeline.execution.predict import forecast, nearest

PROFILE = "profile-2026-08"
BERT: dict[str, Any] = {
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 1, "intermediate_size": 128, "vocab_size": 99, "max_position_embeddings": 64,
    "type_vocab_size": 2, "hidden_act": "gelu",
}  # fmt: skip


def of(folder: Path, **over: Any) -> Any:
    return forecast(CatalogueEntry("a/x", 1, config={**BERT, **over}), PROFILE, folder)


def test_a_row_whose_structure_an_adapter_serves_is_supported(tmp_path: Path) -> None:
    found = of(tmp_path)
    assert (found.supported, found.adapter, found.causal) == (True, "bert-shaped", False)
    assert matching_manifest(found.family, PROFILE)["digest"] == found.digest  # type: ignore[index]


def test_a_row_that_no_adapter_serves_names_what_the_nearest_lacks_and_what_fails(tmp_path: Path) -> None:
    found = of(tmp_path, hidden_act="relu")
    assert (found.supported, found.adapter) == (False, None)
    assert found.lacks == "bert-shaped but for hidden_act relu, not gelu"
    assert found.causes
    assert found.reason.startswith(found.lacks)


def test_a_row_of_widths_that_an_adapter_was_not_made_for_is_not_served_by_it(tmp_path: Path) -> None:
    found = of(tmp_path, intermediate_size=1000)
    assert (found.supported, found.adapter) == (False, None)
    assert found.lacks == "bert-shaped but for part_sticks 1000, not None"


def test_a_row_that_stock_transformers_has_no_class_for_is_not_supported_and_says_why(tmp_path: Path) -> None:
    found = of(tmp_path, model_type="nobody-has-this")
    assert (found.supported, found.kind) == (False, "unknown_architecture")


@pytest.mark.parametrize("block", ["no.such.Block"])
def test_blocks_of_a_class_that_no_adapter_knows_are_named(block: str) -> None:
    assert nearest({"block": block}, PROFILE) == "no adapter has blocks of class Block"
