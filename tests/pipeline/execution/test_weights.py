"""How much of a model is drawn: all that is diagnosed, little of what a sweep executes, and it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.execution import weights
from pipeline.execution.subject import Subject

BERT = {
    "model_type": "bert", "vocab_size": 5_000, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128,
    "num_hidden_layers": 4, "max_position_embeddings": 64, "pad_token_id": 4_999,
}  # fmt: skip


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(BERT))
    return Subject("a/bert", folder, "profile-2026-08", tmp_path)


def layers_and_ids(made: weights.Prepared) -> tuple[int, int]:
    config = made.model.config
    return config.num_hidden_layers, config.vocab_size


def test_a_brief_model_has_two_layers_and_few_token_ids_and_says_so(subject: Subject) -> None:
    made = weights.prepare(subject, brief=True)
    assert layers_and_ids(made) == (2, weights.SWEEP_VOCABULARY)
    assert made.depth == "2 of 4"
    assert made.recipe is not None
    assert made.recipe["vocabulary"] == f"{weights.SWEEP_VOCABULARY} of 5000"


def test_what_is_diagnosed_is_whole(subject: Subject) -> None:
    made = weights.prepare(subject)
    assert layers_and_ids(made) == (4, 5_000)
    assert made.depth == "full"


def test_a_model_too_big_keeps_a_block_that_follows_another(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "LARGEST_FULL_DEPTH", 1)
    assert layers_and_ids(weights.prepare(subject)) == (2, 5_000)


def test_what_is_executed_may_be_bigger_than_what_is_diagnosed(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LARGEST_FULL_DEPTH", 1)
    assert layers_and_ids(weights.prepare(subject, largest=weights.LARGEST_EXECUTED)) == (4, 5_000)
