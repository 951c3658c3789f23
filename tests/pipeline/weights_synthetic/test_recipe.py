"""Recipe calibrated-1: reaches its targets, repeats itself exactly, restores what it switched, refuses what it must."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pipeline.verification.parts import reference_run, rms, vocabulary_of
from pipeline.weights.synthetic import recipe
from pipeline.weights.synthetic.build import build_stock, load_config, synthesise
from pipeline.weights.synthetic.draw import draw, stream_for
from pipeline.weights.synthetic.fit import calibrate
from pipeline.weights.synthetic.probe import calibration_batch, check_batch
from pipeline.weights.synthetic.structure import find_query_key, find_structure

TINY = {"vocab_size": 400, "hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 192}
TINY |= {"num_hidden_layers": 3, "max_position_embeddings": 160}
KINDS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert"},
    "albert": {"model_type": "albert", "embedding_size": 32, "hidden_act": "gelu_new"},
    "distilbert": {"model_type": "distilbert", "dim": 96, "n_heads": 4, "hidden_dim": 192, "n_layers": 3},
    "mpnet": {"model_type": "mpnet", "relative_attention_num_buckets": 32},
    "t5": {"model_type": "t5", "d_model": 96, "d_kv": 24, "d_ff": 192, "num_layers": 3, "num_heads": 4},
    "llama": {"model_type": "llama", "num_key_value_heads": 2, "pad_token_id": 0},
    "qwen3": {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 24, "pad_token_id": 0},
    "gemma3": {"model_type": "gemma3_text", "num_key_value_heads": 2, "head_dim": 24, "sliding_window": 64},
    "modernbert": {
        "model_type": "modernbert",
        "pad_token_id": 0,
        "cls_token_id": 1,
        "sep_token_id": 2,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "gpt2": {"model_type": "gpt2", "n_embd": 96, "n_head": 4, "n_layer": 3, "n_positions": 160},
}


def config_of(kind: str) -> dict[str, Any]:
    return {**TINY, **KINDS[kind]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_recipe_fits_families_of_all_shapes(kind: str) -> None:
    model, report = synthesise(config_of(kind))
    assert report.recipe == "calibrated-1"
    assert report.score_std == pytest.approx([recipe.SCORE_STD] * len(report.score_std), rel=0.1)
    assert not report.void, report.ideal_token_cosine
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("kind", "post_norm", "causal", "query_key"),
    [("bert", True, False, "Linear"), ("qwen3", False, True, "Qwen3RMSNorm"), ("gpt2", False, True, "Conv1D")],
)
def test_structure_is_found_without_model_types(kind: str, post_norm: bool, causal: bool, query_key: str) -> None:
    report = synthesise(config_of(kind)).report
    assert (report.post_norm, report.causal, report.query_key[0]) == (post_norm, causal, query_key)
    assert report.calls == 3


def test_branch_norms_take_the_scaling() -> None:
    assert synthesise(config_of("gemma3")).report.branch_norms == 6


def test_a_shared_layer_is_calibrated_once_and_counted_at_each_call() -> None:
    report = synthesise(config_of("albert")).report
    assert (report.writers, report.calls) == (2, 3)


def test_two_runs_give_the_same_bits_whatever_the_global_state() -> None:
    torch.manual_seed(1)
    first = synthesise(config_of("mpnet"), seed=4).model.state_dict()
    torch.manual_seed(2)
    second = synthesise(config_of("mpnet"), seed=4).model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_seeds_give_different_models() -> None:
    first, second = (synthesise(config_of("bert"), seed=s).model.state_dict() for s in (0, 1))
    assert all(not torch.equal(first[n], second[n]) for n in first if n.endswith("query.weight"))


def test_streams_are_named() -> None:
    draws = {n: torch.randn(3, generator=stream_for(0, n)).tolist() for n in ("a.weight", "b.weight")}
    assert draws["a.weight"] != draws["b.weight"]
    assert torch.randn(3, generator=stream_for(0, "a.weight")).tolist() == draws["a.weight"]


def test_calibrate_restores_attention_and_gradient_flags() -> None:
    model: Any = build_stock(load_config(config_of("bert")))
    model.embeddings.position_embeddings.weight.requires_grad_(False)
    before = model.config._attn_implementation
    batch = calibration_batch(model.config, vocabulary_of(model), 0)
    report = calibrate(model, batch, seed=3)
    assert model.config._attn_implementation == before == "sdpa"
    assert not model.embeddings.position_embeddings.weight.requires_grad
    assert model.encoder.layer[0].output.dense.weight.requires_grad
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert report.seed == 3


def test_frozen_tables_are_left_alone() -> None:
    model: Any = build_stock(load_config(config_of("bert")))
    table = model.embeddings.position_embeddings.weight
    table.data.fill_(0.25)
    table.requires_grad_(False)
    draw(model, calibration_batch(model.config, 400, 0), 0)
    assert bool((table == 0.25).all())


def test_outlier_channels_are_loud_in_the_stream() -> None:
    model: Any = synthesise(config_of("llama")).model
    batch = check_batch(model.config, 400, 0, "left")
    seen: list[torch.Tensor] = []
    handle = model.norm.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    reference_run(model, batch)
    handle.remove()
    sizes = seen[0][batch["attention_mask"].bool()].pow(2).mean(0).sqrt()
    assert int((sizes > 4 * sizes.median()).sum()) == recipe.OUTLIERS


def test_tokens_of_one_text_stay_apart() -> None:
    model = synthesise(config_of("bert")).model
    batch = check_batch(model.config, 400, 0)
    tokens = torch.nn.functional.normalize(reference_run(model, batch)[0], dim=-1)
    alike = (tokens @ tokens.t()).fill_diagonal_(0).sum() / (40 * 39)
    assert alike < 0.6


def test_a_model_without_softmax_is_refused() -> None:
    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(16, 16) for _ in range(3))

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden + self.c(self.b(self.a(hidden)).relu())

    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.layers = nn.Embedding(50, 16), nn.ModuleList([Mixer(), Mixer()])

        def get_input_embeddings(self) -> nn.Module:
            return self.table

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
            hidden = self.table(input_ids)
            for layer in self.layers:
                hidden = layer(hidden)
            return (hidden,)

    with pytest.raises(recipe.RecipeRefused, match="without a softmax"):
        calibrate(Bare(), _plain_batch())


def _plain_batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 50, (2, 8), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_a_model_without_layers_or_table_is_refused() -> None:
    class Flat(nn.Module):
        def __init__(self, table: bool) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 16)
            self.known = table

        def get_input_embeddings(self) -> nn.Module | None:
            return self.table if self.known else None

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.table(input_ids),)

    with pytest.raises(recipe.RecipeRefused, match="finds no list of layers"):
        calibrate(Flat(True), _plain_batch())
    with pytest.raises(recipe.RecipeRefused, match="needs a token table"):
        calibrate(Flat(False), _plain_batch())


def test_convolution_layers_without_attention_are_refused() -> None:
    lfm2 = {"model_type": "lfm2", "num_key_value_heads": 2, "layer_types": ["conv", "full_attention", "conv"]}
    with pytest.raises(recipe.RecipeRefused, match="without a softmax"):
        synthesise({**TINY, **lfm2, "pad_token_id": 0})


def test_query_and_key_of_a_fused_projection_are_told_from_the_values() -> None:
    model: Any = build_stock(load_config(config_of("gpt2")))
    batch = calibration_batch(model.config, 400, 0, "left")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        draw(model, batch, 0)
    parts = find_query_key(model, batch, find_structure(model, batch).layers)
    rows = next(iter(parts.values()))[0].rows
    assert rows[:192].all()
    assert not rows[192:].any()


def test_the_report_is_plain_data() -> None:
    import json

    data = json.loads(json.dumps(synthesise(config_of("bert"), layers=2).report.to_dict()))
    assert data["depth"] == "2 of 3"
    assert data["recipe"] == "calibrated-1"


def test_rms_is_a_root_mean_square() -> None:
    assert rms(torch.tensor([3.0, 4.0])) == pytest.approx(12.5**0.5)
