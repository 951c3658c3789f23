"""Probes and hidden seeds: mixed lengths, both sides, replayable by seed and unknown before."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipeline.verification.policy import current_policy
from pipeline.verification.probes import (
    PAIRS_PER_LANGUAGE,
    alone_batches,
    length_limit,
    probe_batches,
    probe_pairs,
    texts_missing,
)
from pipeline.verification.seeds import draw_hidden_seeds

from .conftest import SEED


def test_the_same_seed_gives_the_same_batches_and_another_does_not(tiny_bert: Any) -> None:
    first, again, other = (probe_batches(tiny_bert.config, None, s)[0] for s in (SEED, SEED, SEED + 1))
    assert torch.equal(first.inputs["input_ids"], again.inputs["input_ids"])
    assert first.lengths != other.lengths or not torch.equal(first.inputs["input_ids"], other.inputs["input_ids"])


def test_sweep_mixes_one_token_with_a_full_stick(tiny_bert: Any) -> None:
    probe = probe_batches(tiny_bert.config, None, SEED)[0]
    assert {1, 2, 63, 64} <= set(probe.lengths)
    assert len(probe.lengths) == 5
    assert probe.mask.sum(1).tolist() == list(probe.lengths)


def test_full_goes_beyond_a_stick_and_to_the_longest_text(tiny_bert: Any) -> None:
    first = probe_batches(tiny_bert.config, None, SEED, 0, tier="full")
    second = probe_batches(tiny_bert.config, None, SEED, 1, tier="full")
    assert [p.name for p in first] == ["draw0-mixed-right", "draw0-longest"]
    assert first[1].lengths == (length_limit(tiny_bert.config),)
    assert {65, 64, 2} <= set(second[0].lengths)
    assert max(second[0].lengths) > 65


def test_sweep_also_runs_the_next_length_bucket(tiny_bert: Any) -> None:
    _, longer = probe_batches(tiny_bert.config, None, SEED, max_length=128)
    assert 64 < max(longer.lengths) < 128
    assert (longer.purpose, len(longer.lengths)) == ("case", 2)
    assert len(probe_batches(tiny_bert.config, None, SEED, max_length=100)) == 1


def test_causal_models_are_padded_on_both_sides_with_the_same_texts(tiny_llama: Any) -> None:
    left, right, *_ = probe_batches(tiny_llama.config, None, SEED, tier="full", causal=True)
    assert (left.side, right.side) == ("left", "right")
    assert left.lengths == right.lengths
    assert left.mask[:, -1].all()
    assert right.mask[:, 0].all()
    for row in range(len(left.lengths)):
        texts = [p.inputs["input_ids"][row, p.mask[row].bool()] for p in (left, right)]
        assert torch.equal(*texts)


def test_real_texts_have_special_tokens_types_and_exact_lengths(minilm: Any, minilm_tokenizer: Any) -> None:
    first = probe_batches(minilm.config, minilm_tokenizer, SEED, 0, tier="full")
    mixed, longest, scripts, *ranked = first
    assert {2, 63, 64} <= set(mixed.lengths)
    assert longest.lengths == (512,)
    assert (mixed.inputs["input_ids"][:, 0] == minilm_tokenizer.cls_token_id).all()
    assert "token_type_ids" in mixed.inputs
    assert scripts.empty_texts == 1
    assert 2 in scripts.lengths, "the empty text is two special tokens"
    assert {p.purpose for p in ranked} == {"ranking"}
    assert sum(len(p.lengths) for p in ranked) == 2 * PAIRS_PER_LANGUAGE * len(probe_pairs()) == 48
    assert {tuple(p.mask.shape) for p in (scripts, *ranked)} == {(12, 48)}, "one shape to capture and compile"
    second = probe_batches(minilm.config, minilm_tokenizer, SEED, 1, tier="full")
    assert [p.purpose for p in second] == ["case", "scripts"]


def test_both_draws_together_show_enough_scripts(minilm: Any, minilm_tokenizer: Any) -> None:
    for seed in range(20):
        draws = [probe_batches(minilm.config, minilm_tokenizer, seed, d, tier="full") for d in (0, 1)]
        found = {script for batches in draws for probe in batches for script in probe.scripts}
        assert len(found) >= current_policy().guards["scripts"], (seed, found)


class NoTokenForNothing:
    """A tokenizer without special tokens: it gives the empty text no token, as some decoders' do."""

    pad_token_id, model_input_names = 0, ("input_ids",)

    def num_special_tokens_to_add(self) -> int:
        return 0

    def __call__(self, text: str, **how: Any) -> dict[str, list[int]]:
        return {"input_ids": [10 + ord(c) % 300 for c in text][: how.get("max_length")]}


def test_an_empty_text_without_tokens_is_left_out_and_said(tiny_bert: Any) -> None:
    probes = probe_batches(tiny_bert.config, NoTokenForNothing(), SEED, tier="full")
    assert all(n > 0 for probe in probes for n in probe.lengths)
    assert not any(probe.empty_texts for probe in probes)
    assert texts_missing(NoTokenForNothing()) == {"empty_text": "the tokenizer gives no token for it"}


def test_what_needs_text_is_named_where_there_is_no_tokenizer(minilm_tokenizer: Any) -> None:
    assert set(texts_missing(None)) == {"empty_text", "scripts", "ranking"}
    assert texts_missing(minilm_tokenizer) == {}


def test_random_texts_avoid_special_ids(tiny_llama: Any) -> None:
    probe = probe_batches(tiny_llama.config, None, SEED)[0]
    real = probe.inputs["input_ids"][probe.mask.bool()]
    assert real.min() >= 5
    assert real.max() < tiny_llama.config.vocab_size


def test_a_short_limit_cuts_lengths_and_a_tiny_one_is_refused(tiny_bert: Any) -> None:
    (probe,) = probe_batches(tiny_bert.config, None, SEED, max_length=32)
    assert max(probe.lengths) == 32
    with pytest.raises(ValueError, match="at least 8"):
        probe_batches(tiny_bert.config, None, SEED, max_length=4)


def test_position_tables_behind_the_padding_id_lose_those_rows() -> None:
    from transformers import BertConfig, GPT2Config, RobertaConfig, T5Config

    assert length_limit(RobertaConfig(max_position_embeddings=514, pad_token_id=1)) == 512
    assert length_limit(BertConfig(max_position_embeddings=512)) == 512
    assert length_limit(GPT2Config(n_positions=1024)) == 1024
    assert length_limit(T5Config()) == 512


def test_alone_batches_are_the_same_texts_without_padding(tiny_bert: Any) -> None:
    probe = probe_batches(tiny_bert.config, None, SEED)[0]
    alone = alone_batches(probe)
    assert [p.inputs["input_ids"].shape for p in alone] == [(1, n) for n in probe.lengths]
    assert all(p.mask.all() for p in alone)


def test_hidden_seeds_differ_each_time_and_name_their_candidate() -> None:
    first, second = (draw_hidden_seeds("ab" * 32) for _ in range(2))
    assert first.candidate_digest == "ab" * 32
    assert len(set(first.seeds + second.seeds)) == 4


@pytest.mark.parametrize(("digest", "draws"), [("", 2), ("xyz", 2), ("ab" * 32, 0)])
def test_hidden_seeds_need_a_stored_digest(digest: str, draws: int) -> None:
    with pytest.raises(ValueError, match=r"digest|draw"):
        draw_hidden_seeds(digest, draws)
