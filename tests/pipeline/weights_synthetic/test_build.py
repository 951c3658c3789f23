"""Building from a config: stock classes, encoders only, cut depth by whole periods, bad configs named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import CheckpointProblem
from pipeline.verification.parts import token_table
from pipeline.weights.synthetic.build import (
    build_stock,
    cut_vocabulary,
    layer_period,
    load_config,
    synthesise,
    truncated_config,
)

BERT = {
    "model_type": "bert", "vocab_size": 400, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128,
    "num_hidden_layers": 4, "max_position_embeddings": 64,
}  # fmt: skip


def test_a_folder_a_dictionary_and_a_config_give_the_same_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BERT))
    models = [synthesise(source).model for source in (tmp_path, BERT, load_config(BERT))]
    states = [m.state_dict() for m in models]
    assert all(torch.equal(states[0][n], s[n]) for s in states[1:] for n in states[0])
    assert type(models[0]).__name__ == "BertModel"
    assert not models[0].training
    assert {p.dtype for p in models[0].parameters()} == {torch.float32}


def test_a_config_in_half_precision_is_built_in_fp32_and_left_as_it_was() -> None:
    config = load_config({**BERT, "dtype": "bfloat16"})
    model = synthesise(config).model
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert "bfloat16" in str(config.dtype)


def test_an_encoder_decoder_gives_its_encoder() -> None:
    t5 = {
        "model_type": "t5",
        "vocab_size": 400,
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 128,
        "num_layers": 2,
        "num_heads": 4,
    }
    assert type(build_stock(load_config(t5))).__name__ == "T5EncoderModel"


def test_a_class_can_be_named_and_must_be_of_transformers() -> None:
    assert type(build_stock(load_config(BERT), "BertModel")).__name__ == "BertModel"
    for name in ("NoSuchModel", "AutoTokenizer"):
        with pytest.raises(CheckpointProblem, match=f"no model class '{name}'"):
            build_stock(load_config(BERT), name)


def test_an_encoder_decoder_without_encoder_class_is_built_whole() -> None:
    bart = {"model_type": "bart", "vocab_size": 400, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    bart |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    assert type(build_stock(load_config(bart))).__name__ == "BartModel"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ({"model_type": "no_such_model"}, "unknown_architecture"),
        ({"hidden_size": 4}, "unknown_architecture"),
        ({**BERT, "num_attention_heads": 7}, "unknown_architecture"),
    ],
)
def test_configs_that_build_nothing_are_named(source: dict[str, Any], kind: str) -> None:
    with pytest.raises(CheckpointProblem) as caught:
        synthesise(source)
    assert caught.value.kind == kind


def test_a_broken_folder_is_malformed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{not json")
    with pytest.raises(CheckpointProblem) as caught:
        load_config(tmp_path)
    assert caught.value.kind == "malformed"


def test_remote_code_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.Evil"}})
    )
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    with pytest.raises(CheckpointProblem):
        load_config(tmp_path)


def test_depth_is_cut_and_said() -> None:
    config, depth = truncated_config(load_config(BERT), 2)
    assert (config.num_hidden_layers, depth) == (2, "2 of 4")
    assert truncated_config(load_config(BERT), None).depth == "full"
    assert truncated_config(load_config(BERT), 9).depth == "full"


def test_a_period_of_layer_kinds_stays_whole() -> None:
    gemma = load_config({"model_type": "gemma3_text", "num_hidden_layers": 24, "vocab_size": 400})
    assert layer_period(gemma) == 6
    config, depth = truncated_config(gemma, 2)
    assert depth == "6 of 24"
    assert len(config.layer_types) == 6
    assert len(set(config.layer_types)) == 2


def test_kinds_that_do_not_repeat_are_kept_up_to_the_last_new_one() -> None:
    kinds = ["conv", "conv", "full_attention", "conv", "full_attention", "full_attention"]
    lfm2 = load_config({"model_type": "lfm2", "layer_types": kinds, "num_hidden_layers": 6})
    assert layer_period(lfm2) == 3


def test_attribute_names_of_older_configs_are_followed() -> None:
    config, depth = truncated_config(load_config({"model_type": "distilbert", "n_layers": 6}), 2)
    assert (config.n_layers, depth) == (2, "2 of 6")


def test_a_cut_vocabulary_keeps_special_tokens_apart_and_inside() -> None:
    config = load_config({**BERT, "vocab_size": 5_000, "pad_token_id": 1, "bos_token_id": 4_998, "eos_token_id": 4_999})
    cut, said = cut_vocabulary(config, 128)
    assert said == "128 of 5000"
    assert (cut.vocab_size, cut.pad_token_id, cut.bos_token_id, cut.eos_token_id) == (128, 1, 127, 126)
    assert config.vocab_size == 5_000
    assert cut_vocabulary(config, None).vocabulary == cut_vocabulary(config, 5_000).vocabulary == "full"


def test_a_model_of_a_cut_vocabulary_says_so_and_keeps_its_padding_row() -> None:
    model, report = synthesise({**BERT, "vocab_size": 5_000, "pad_token_id": 4_999}, vocabulary=128)
    table = token_table(model)
    assert table is not None
    assert (table.num_embeddings, table.padding_idx) == (128, 127)
    assert report.vocabulary == "128 of 5000"
