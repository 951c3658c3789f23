"""Small stock models of many families: two layers or one period, real structure, few numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding

from tests.adapters.conftest import lively

WIDE = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES = {**WIDE, "intermediate_size": 96, "max_position_embeddings": 200}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = {**SIZES, **IDS, "num_key_value_heads": 2}
WINDOWED = {"sliding_window": 6, "layer_types": ["full_attention", "sliding_attention"]}
AXES = {"rope_type": "default", "rope_theta": 10000.0}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**DECODER},
    "llama scaled": {
        "model_type": "llama", **DECODER,
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        },
    },
    "mistral": {**DECODER, "sliding_window": 6},
    "qwen2": {**DECODER},
    "qwen3": {**DECODER, "head_dim": 16, "use_sliding_window": True, **WINDOWED},
    "gemma": {**DECODER, "head_dim": 16, "num_key_value_heads": 1},
    "gemma2": {**DECODER, "head_dim": 16, "query_pre_attn_scalar": 20, **WINDOWED},
    "gemma3_text": {**DECODER, "head_dim": 16, "query_pre_attn_scalar": 20, **WINDOWED},
    "embeddinggemma": {
        "model_type": "gemma3_text", **DECODER, "head_dim": 16, "query_pre_attn_scalar": 20,
        "use_bidirectional_attention": True, **WINDOWED, "sliding_window": 12,
    },
    "granite": {
        **DECODER, "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2,
    },
    "qwen2_vl_text": {**DECODER, "rope_parameters": {**AXES, "mrope_section": [2, 3, 3]}},
    "qwen2_5_vl_text": {**DECODER, "rope_parameters": {**AXES, "mrope_section": [2, 3, 3]}},
    "qwen3_vl_text": {**DECODER, "head_dim": 16, "rope_parameters": {
        **AXES, "mrope_section": [4, 2, 2], "mrope_interleaved": True}},
    "modernbert": {
        **SIZES, **IDS, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 12,
        "layer_types": ["full_attention", "sliding_attention"],
    },
    "nomic_bert": {**SIZES, **IDS},
    "gte": {**SIZES, **IDS},
    "eurobert": {**DECODER},
    "jina_embeddings_v3": {**SIZES, **IDS},
    "phi": {**DECODER, "num_key_value_heads": 4, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
    "phi3": {**DECODER},
    "gpt_neox": {**SIZES, **IDS, "rotary_pct": 0.25},
    "esm": {**SIZES, "pad_token_id": 1, "mask_token_id": 3, "position_embedding_type": "rotary", "token_dropout": True},
    "gptj": {"vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8, "n_positions": 200, **IDS},
    "roformer": {**SIZES, "pad_token_id": 0},
    "t5": {
        "vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4, "num_layers": 2,
        "feed_forward_proj": "gated-gelu", "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
    },
    "gpt2": {"vocab_size": 100, "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 200, **IDS},
    "gpt_neo": {
        "vocab_size": 100, "hidden_size": 64, "num_layers": 2, "num_heads": 4, "window_size": 6,
        "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 200, **IDS,
    },
    "bloom": {"vocab_size": 100, "hidden_size": 64, "n_layer": 2, "n_head": 4, **IDS},
    "bloom of 12": {"model_type": "bloom", "vocab_size": 100, "hidden_size": 96, "n_layer": 2, "n_head": 12, **IDS},
    "deberta": {
        **SIZES, "pad_token_id": 0, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
        "max_relative_positions": 24, "type_vocab_size": 0, "position_biased_input": False,
    },
    "deberta-v2": {
        **SIZES, "pad_token_id": 0, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8,
        "max_relative_positions": 24, "norm_rel_ebd": "layer_norm", "share_att_key": True, "type_vocab_size": 0,
        "position_biased_input": False,
    },
    "deberta-v2 conv": {
        "model_type": "deberta-v2", **SIZES, "pad_token_id": 0, "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"], "position_buckets": 8, "max_relative_positions": 24, "share_att_key": True,
        "norm_rel_ebd": "layer_norm", "type_vocab_size": 0, "position_biased_input": False, "conv_kernel_size": 3,
        "conv_act": "gelu",
    },
    "longformer": {**SIZES, "pad_token_id": 1, "attention_window": [8, 8], "max_position_embeddings": 202},
    "big_bird": {**SIZES, **IDS, "attention_type": "block_sparse"},
    "big_bird of blocks": {
        "model_type": "big_bird", **SIZES, **IDS, "attention_type": "block_sparse", "block_size": 4,
        "num_random_blocks": 2,
    },
    "flaubert pre-norm": {
        "model_type": "flaubert", "vocab_size": 100, "emb_dim": 64, "n_layers": 2, "n_heads": 4, "pre_norm": True,
        "max_position_embeddings": 200, "pad_index": 0, "pad_token_id": 0, "bos_index": 1, "eos_index": 2,
        "unk_index": 3, "mask_index": 4,
    },
    "flaubert": {
        "vocab_size": 100, "emb_dim": 64, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 200, "pad_index": 0,
        "pad_token_id": 0, "bos_index": 1, "eos_index": 2, "unk_index": 3, "mask_index": 4,
    },
    "xmod": {
        **SIZES, "pad_token_id": 1, "bos_token_id": 3, "eos_token_id": 2, "languages": ["en_XX", "de_DE"],
        "default_language": "de_DE",
    },
    "xmod with norms": {
        "model_type": "xmod", **SIZES, "pad_token_id": 1, "languages": ["en_XX", "de_DE"], "default_language": "en_XX",
        "adapter_layer_norm": True, "ln_before_adapter": False,
    },
    "luke": {**SIZES, "pad_token_id": 1, "entity_vocab_size": 10, "entity_emb_size": 16},
    "convbert": {**SIZES, "pad_token_id": 0, "embedding_size": 32, "head_ratio": 2, "conv_kernel_size": 9},
    "lfm2 with biases": {
        "model_type": "lfm2", **DECODER, "layer_types": ["conv", "full_attention"], "conv_L_cache": 3,
        "block_auto_adjust_ff_dim": False, "conv_bias": True,
    },
    "lfm2": {
        **DECODER, "layer_types": ["conv", "full_attention"], "conv_L_cache": 3, "block_auto_adjust_ff_dim": False,
    },
    "clip_text_model": {**SIZES, **IDS, "eos_token_id": 99},
    "bert": {**SIZES, "pad_token_id": 0},
    "ragged bert": {
        "model_type": "bert", **SIZES, "hidden_size": 72, "intermediate_size": 100, "pad_token_id": 0,
    },
    "ragged roberta": {"model_type": "roberta", **SIZES, "hidden_size": 72, "pad_token_id": 1},
    "electra": {**SIZES, "pad_token_id": 0, "embedding_size": 32},
    "camembert": {**SIZES, "pad_token_id": 1},
    "ernie": {**SIZES, "pad_token_id": 0},
    "dpr": {**SIZES, "pad_token_id": 0},
}  # fmt: skip
"""Fields of the config by name; `model_type` only where the name is another."""


def family(name: str) -> nn.Module:
    """The model with lively weights, fp32, eval."""
    return built(name, CONFIGS[name])


def built(name: str, given: dict[str, Any]) -> nn.Module:
    """As `family`, of a config of one's own."""
    fields = {**given}
    kind = fields.pop("model_type", name)
    config = AutoConfig.for_model(kind, **fields)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    auto = AutoModelForTextEncoding if kind in ("t5", "mt5") else AutoModel
    return lively(auto.from_config(config))


class InDouble(TorchFunctionMode):
    """Stock code works in fp32 in places, whatever the dtype: here it stays in fp64, for a sharp comparison."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        wide = [torch.float64 if a is torch.float32 else a for a in args]
        return func(*wide, **{k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()})
