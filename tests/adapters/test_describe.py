"""Descriptions come from structure alone and are the same from a config as from the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from adapters import adapt
from adapters.describe import RARE, describe, differing, matches
from adapters.errors import StructureUnknown
from adapters.releases.manifest import Manifest, record_digests
from adapters.tasks import base_of
from tests.adapters.patches.families import CONFIGS, built, family

FAMILIES = ["bert", "albert", "roberta", "mpnet", "distilbert", "electra"]


@pytest.mark.parametrize("family", FAMILIES)
def test_config_alone_describes_what_the_model_does(family: str, make_model: Callable[[str], nn.Module]) -> None:
    model = make_model(family)
    assert describe(model.config) == describe(model)


def test_of_an_encoder_with_a_decoder_the_encoder_is_described() -> None:
    model = family("t5")
    words = describe(model.config)
    assert words == describe(model)
    assert (words["causal"], words["hidden_act"]) == (False, model.config.feed_forward_proj)


def test_a_block_with_buffers_that_are_not_saved_is_described_alike() -> None:
    model = family("gpt_neo")
    words = describe(model.config)
    assert words == describe(model)
    assert words["norm"] == "pre"


def test_any_number_of_shared_heads_is_one_word_and_fused_heads_have_their_size() -> None:
    from transformers import ModernBertConfig, Qwen3Config

    small: dict[str, Any] = {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
    sharing = [Qwen3Config(**small, num_attention_heads=8, num_key_value_heads=n, head_dim=16) for n in (8, 4, 2)]
    assert [describe(config)["kv_groups"] for config in sharing] == [1, 2, 2]
    fused = [ModernBertConfig(**small, num_attention_heads=n, pad_token_id=0) for n in (2, 4)]
    assert [describe(config)["head_dim"] for config in fused] == [32, 16]


def test_a_convolution_beside_the_blocks_is_a_word_that_models_without_one_do_not_have() -> None:
    without, having = (describe(family(name)) for name in ("deberta-v2", "deberta-v2 conv"))
    found = having.pop("convolution")
    assert found == "transformers.models.deberta_v2.modeling_deberta_v2.ConvLayer"
    assert having == without
    assert not any("convolution" in describe(family(name)) for name in ("convbert", "lfm2"))  # in their blocks


def test_widths_that_are_no_whole_sticks_are_a_word_that_models_without_such_do_not_have() -> None:
    whole = {**CONFIGS["bert"], "model_type": "bert", "intermediate_size": 128}
    assert "part_sticks" not in describe(built("bert", whole))
    assert describe(built("bert", {**whole, "intermediate_size": 96}))["part_sticks"] == "96"
    assert describe(family("ragged bert"))["part_sticks"] == "72/100"
    transposed = {**CONFIGS["gpt2"], "model_type": "gpt2", "n_inner": 100}
    assert describe(built("gpt2", transposed))["part_sticks"] == "100"


def test_words_of_bert(make_model: Callable[[str], nn.Module]) -> None:
    words = describe(make_model("bert"))
    expected = {
        "attention": "query/key/value",
        "head_dim": 32,
        "hidden_act": "gelu",
        "norm": "post",
        "norm_class": "LayerNorm",
        "positions": "absolute",
        "causal": False,
        "attention_function": "sdpa",
    }
    assert {k: words[k] for k in expected} == expected


def test_albert_shares_its_blocks_and_mpnet_has_eager_attention(make_model: Callable[[str], nn.Module]) -> None:
    assert describe(make_model("albert"))["shared_blocks"] is True
    words = describe(make_model("mpnet"))
    assert (words["attention_function"], words["positions"], words["scale"]) == ("eager", "by_id", "sqrt_head")


def test_describing_leaves_no_hook_behind(make_model: Callable[[str], nn.Module]) -> None:
    model = make_model("bert")
    describe(model)
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_predicate_matches_only_when_every_word_does() -> None:
    words = {"head_dim": 32, "norm": "post"}
    assert matches({"head_dim": 32}, words)
    assert matches({"head_dim": [32, 64], "norm": "post"}, words)
    assert not matches({"head_dim": 64}, words)
    assert not matches({"unknown": None}, words)
    assert not matches({}, words)


@pytest.mark.parametrize("word", RARE)
def test_a_predicate_that_is_silent_on_a_rare_word_is_not_for_a_model_with_it(word: str) -> None:
    words = {"head_dim": 32, word: "a"}
    assert not matches({"head_dim": 32}, words)
    assert not matches({"any": [{"head_dim": 32}]}, words)
    assert matches({"head_dim": 32, word: "a"}, words)
    assert not matches({"head_dim": 32, word: "b"}, words)
    assert not matches({"head_dim": 32, word: "a"}, {"head_dim": 32})
    assert differing({"head_dim": 64}, words) == ["head_dim", word]


def test_a_config_of_an_unknown_class_is_refused() -> None:
    from transformers import PreTrainedConfig

    with pytest.raises(StructureUnknown):
        describe(PreTrainedConfig())


def test_a_shell_around_a_model_is_described_and_bound_as_the_model_that_is_adapted() -> None:
    shell = family("dpr")
    base = base_of(shell)
    assert base is not shell
    assert describe(shell) == describe(base) == describe(shell.config)
    patches = [{"pattern": "P40", "parameters": {}}, {"pattern": "P61", "parameters": {}}]
    assert record_digests(shell, patches) == record_digests(base, patches)
    words = describe(shell)
    manifest = Manifest("m", "1", "f", "profile-2026-08", words, tuple(record_digests(shell, patches)))
    with adapt(shell, manifest=manifest, device="cpu", compile=False) as handle:
        assert [p["pattern"] for p in handle.report()["patches"]] == ["P40", "P61"]
