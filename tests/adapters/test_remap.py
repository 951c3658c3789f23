"""Configurations in a stock class' words: what is carried over, what is refused, the same numbers from the weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel

from adapters.errors import NotRemapped
from adapters.remap import remapped
from tests.adapters.conftest import lively

NEW: dict[str, Any] = {
    "architectures": ["NewModel"], "auto_map": {"AutoModel": "org/code--modeling.NewModel"}, "model_type": "new",
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48,
    "hidden_act": "gelu", "max_position_embeddings": 64, "type_vocab_size": 1, "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm", "pack_qkv": True, "position_embedding_type": "rope", "rope_theta": 20000.0,
    "rope_scaling": {"factor": 8.0, "type": "ntk"}, "unpad_inputs": False, "use_memory_efficient_attention": False,
    "logn_attention_scale": False, "logn_attention_clip1": False, "pad_token_id": 1, "torch_dtype": "float32",
}  # fmt: skip
NOMIC: dict[str, Any] = {
    "model_type": "nomic_bert", "activation_function": "swiglu", "n_embd": 32, "n_head": 2, "n_inner": 48, "n_layer": 2,
    "n_positions": 128, "vocab_size": 100, "type_vocab_size": 2, "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0, "prenorm": False, "qkv_proj_bias": False, "rotary_scaling_factor": None,
}  # fmt: skip


def config_of(fields: dict[str, Any]) -> Any:
    own = {**remapped(fields)}  # type: ignore[dict-item]
    return AutoConfig.for_model(own.pop("model_type"), **own)


def test_the_scaled_frequencies_are_those_of_the_original_from_the_first_token_on() -> None:
    model: Any = AutoModel.from_config(config_of(NEW))
    head, factor, theta = 16, 8.0, 20000.0
    expected = [(theta * factor) ** (-2 * j / head) / factor ** (2 / head) for j in range(head // 2)]
    found = model.rotary_emb.inv_freq.tolist()
    assert found == pytest.approx(expected, rel=1e-6)
    native = [160_000.0 ** (-2 * j / head) for j in range(head // 2)]
    assert not math.isclose(found[-1], native[-1], rel_tol=0.2), "the stock default has no divisor"


def test_without_scaling_the_base_is_the_one_that_is_named_not_the_stock_default() -> None:
    plain = {**NEW, "rope_theta": 500_000, "rope_scaling": None}
    model: Any = AutoModel.from_config(config_of(plain))
    assert model.rotary_emb.inv_freq.tolist() == pytest.approx([500_000 ** (-j / 8) for j in range(8)], rel=1e-6)


def test_sizes_under_their_first_names_reach_the_stock_class() -> None:
    config = config_of(NOMIC)
    assert (config.hidden_size, config.num_attention_heads, config.num_hidden_layers) == (32, 2, 2)
    assert (config.intermediate_size, config.max_position_embeddings, config.layer_norm_eps) == (48, 128, 1e-12)
    assert config.rope_parameters["rope_theta"] == 1000.0


@pytest.mark.parametrize(
    ("fields", "changed", "names"),
    [
        (NEW, {"rope_scaling": {"factor": 8.0, "type": "yarn"}}, "rope_scaling"),
        (NEW, {"rope_scaling": {"factor": 8.0, "type": "ntk", "mixed_b": 0.5}}, "mixed_b"),
        (NEW, {"layer_norm_type": "rms_norm"}, "layer_norm_type"),
        (NEW, {"position_embedding_type": "absolute"}, "position_embedding_type"),
        (NEW, {"num_experts": 8}, "num_experts"),
        (NOMIC, {"rotary_emb_fraction": 0.5}, "rotary_emb_fraction"),
        (NOMIC, {"qkv_proj_bias": True}, "qkv_proj_bias"),
    ],
)
def test_what_the_stock_class_does_not_do_is_refused_by_name(
    fields: dict[str, Any], changed: dict[str, Any], names: str
) -> None:
    with pytest.raises(NotRemapped, match=names):
        remapped({**fields, **changed})


def test_configurations_of_stock_classes_are_left_alone() -> None:
    assert remapped({"model_type": "bert", "anything": 1}) is None
    assert remapped({"model_type": "nomic_bert", "hidden_size": 32}) is None


def checkpoint(folder: Path, **changed: Any) -> Any:
    """A folder as the original ships it: its own config and names, fused weights. Returns the stock model behind it."""
    fields = {**NEW, **changed}
    model = lively(AutoModel.from_config(config_of(fields)))
    stock = model.state_dict()
    parts = {
        "self_attn.o_proj": "attention.o_proj",
        "post_attention_layernorm": "attn_ln",
        "post_mlp_layernorm": "mlp_ln",
    }
    tensors = {}
    for name, value in stock.items():
        for own, first in parts.items():
            name = name.replace(own, first)
        tensors["new." + name.replace("layers.", "encoder.layer.")] = value
    for fused, halves in {"attention.qkv_proj": "qkv", "mlp.up_gate_proj": "up gate"}.items():
        names = (
            [f"self_attn.{p}_proj" for p in halves] if " " not in halves else [f"mlp.{p}_proj" for p in halves.split()]
        )
        for layer in range(2):
            for kind in ("weight", "bias"):
                keys = [f"new.encoder.layer.{layer}.{n}.{kind}" for n in names]
                if keys[0] in tensors:
                    joined = torch.cat([tensors.pop(k) for k in keys])
                    tensors[f"new.encoder.layer.{layer}.{fused}.{kind}"] = joined
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(fields))
    return model


def test_a_checkpoint_of_the_original_gives_the_stock_class_numbers(tmp_path: Path) -> None:
    from pipeline.execution.models import load_weights
    from pipeline.inspection import inspect_checkpoint

    stock = checkpoint(tmp_path)
    ids = {"input_ids": torch.randint(5, 99, (2, 30)), "attention_mask": torch.ones(2, 30, dtype=torch.int64)}
    with torch.no_grad():
        assert torch.equal(load_weights(tmp_path)(**ids).last_hidden_state, stock(**ids).last_hidden_state)
    assert inspect_checkpoint(tmp_path).problem is None


def test_a_configuration_that_cannot_be_said_in_stock_words_needs_its_own_code(tmp_path: Path) -> None:
    from pipeline.inspection import inspect_checkpoint

    (tmp_path / "config.json").write_text(json.dumps({**NEW, "layer_norm_type": "rms_norm"}))
    problem = inspect_checkpoint(tmp_path).problem
    assert problem is not None
    assert problem.kind == "remote_code"
    assert "layer_norm_type" in problem.message


@pytest.mark.parametrize("kind", ["DPRQuestionEncoder", "DPRContextEncoder"])
def test_a_shell_around_bert_is_loaded_as_bert_with_token_vectors(kind: str, tmp_path: Path) -> None:
    import transformers

    from pipeline.execution.models import load_weights

    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = AutoConfig.for_model("dpr", **sizes, intermediate_size=48)
    shell: Any = lively(getattr(transformers, kind)(config))
    shell.save_pretrained(tmp_path)
    loaded = load_weights(tmp_path)
    assert type(loaded).__name__ == "BertModel"
    ids = {"input_ids": torch.randint(5, 99, (2, 12)), "attention_mask": torch.ones(2, 12, dtype=torch.int64)}
    with torch.no_grad():
        assert torch.equal(loaded(**ids).last_hidden_state[:, 0], shell(**ids).pooler_output)
    assert remapped({"model_type": "dpr", "projection_dim": 128}) is None


def test_a_user_loads_the_original_checkpoint_and_gets_the_adapted_stock_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adapters import AutoSpyreModel
    from adapters.errors import SpyreNoAdapterError
    from adapters.releases import lookup

    monkeypatch.setattr(lookup, "bundled_manifests", list)
    checkpoint(tmp_path)
    with pytest.raises(SpyreNoAdapterError, match="GteModel"):
        AutoSpyreModel.from_pretrained(tmp_path)


def test_a_sandbox_captures_the_stock_class_of_such_a_configuration() -> None:
    from agents.capture.errors import CaptureRefused
    from agents.capture.stock import config_of as captured

    assert captured(NEW).model_type == "gte"
    with pytest.raises(CaptureRefused, match="num_experts"):
        captured({**NEW, "num_experts": 8})
