"""The small stock models that the corpus acts on: configs, and calibrated weights made once per process."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

SIZES = {"vocab_size": 400, "hidden_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}

DRAWN = "~"
"""Stands between a subject's name and the seed of sizes of its own: `bert~7`."""
WIDTH = ("hidden_size", "dim", "n_embd", "d_model")
NUMBER = ("num_attention_heads", "n_heads", "n_head", "num_heads")
_INNER = ("intermediate_size", "hidden_dim", "d_ff")
_HEAD_DIM = ("head_dim", "d_kv", "query_pre_attn_scalar")
"""What configurations call their width, their heads, the inner width and a head's width."""


class Subjects(dict[str, dict[str, Any]]):
    """`config.json` of each subject, by name. `NAME~SEED` is the subject with other sizes, drawn from the seed."""

    def __missing__(self, name: str) -> dict[str, Any]:
        """Raises KeyError for a name without a seed."""
        known, drawn, seed = name.partition(DRAWN)
        if not drawn:
            raise KeyError(name)
        return resized(self[known], f"{known} {seed}")


def resized(config: dict[str, Any], seed: str) -> dict[str, Any]:
    """The same model with another vocabulary, inner width and number and width of heads; a head fills no stick."""
    drawn = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    heads, head_dim = drawn.choice(((2, 32), (4, 32), (6, 32), (2, 96)))
    sizes = {
        "vocab_size": drawn.randrange(320, 480),
        **dict.fromkeys(WIDTH, heads * head_dim),
        **dict.fromkeys(NUMBER, heads),
        **dict.fromkeys(_INNER, 64 * drawn.randrange(2, 6)),
        **dict.fromkeys(_HEAD_DIM, head_dim),
    }
    return {field: sizes.get(field, value) for field, value in config.items()}


SUBJECTS = Subjects({
    "bert": {"model_type": "bert", "intermediate_size": 256, "max_position_embeddings": 192, **SIZES},
    "qwen3": {
        "model_type": "qwen3", "intermediate_size": 256, "max_position_embeddings": 192, "num_key_value_heads": 2,
        "head_dim": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_sliding_window": True,
        "sliding_window": 16, "layer_types": ["full_attention", "sliding_attention"], **SIZES,
    },
    "modernbert": {
        "model_type": "modernbert", "intermediate_size": 192, "max_position_embeddings": 192, "local_attention": 32,
        "layer_types": ["full_attention", "sliding_attention"], "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, **SIZES,
    },
    "albert": {
        "model_type": "albert", "intermediate_size": 256, "max_position_embeddings": 192, "embedding_size": 64,
        "hidden_act": "gelu_new", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
    "t5": {
        "model_type": "t5", "vocab_size": 400, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_heads": 4,
        "num_layers": 2, "feed_forward_proj": "gated-gelu", "pad_token_id": 0, "eos_token_id": 1,
        "decoder_start_token_id": 0,
    },
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 400, "n_embd": 128, "n_head": 4, "n_layer": 2, "n_positions": 192,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    },
    "gemma3": {
        "model_type": "gemma3_text", "intermediate_size": 256, "max_position_embeddings": 192,
        "num_key_value_heads": 2, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 16,
        "layer_types": ["full_attention", "sliding_attention"], "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, **SIZES,
    },
    "roberta": {
        "model_type": "roberta", "intermediate_size": 256, "max_position_embeddings": 194, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1, **SIZES,
    },
    "mpnet": {
        "model_type": "mpnet", "intermediate_size": 256, "max_position_embeddings": 194, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, **SIZES,
    },
    "distilbert": {
        "model_type": "distilbert", "vocab_size": 400, "dim": 128, "n_heads": 4, "n_layers": 2, "hidden_dim": 256,
        "max_position_embeddings": 192, "pad_token_id": 0,
    },
    "electra": {
        "model_type": "electra", "intermediate_size": 256, "max_position_embeddings": 192, "embedding_size": 64,
        "pad_token_id": 0, **SIZES,
    },
    "bert-quick": {
        "model_type": "bert", "intermediate_size": 256, "max_position_embeddings": 192, "hidden_act": "quick_gelu",
        **SIZES,
    },
    "gpt_neox": {
        "model_type": "gpt_neox", "intermediate_size": 256, "max_position_embeddings": 192, "rotary_pct": 0.25,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
    "bert-odd": {
        "model_type": "bert", "intermediate_size": 200, "max_position_embeddings": 192, **SIZES,
        "num_attention_heads": 2,
    },
    "bert-64": {
        "model_type": "bert", "architectures": ["BertModel"], "intermediate_size": 256, "max_position_embeddings": 192,
        **SIZES, "num_attention_heads": 2,
    },
    "gptj": {
        "model_type": "gptj", "vocab_size": 400, "n_embd": 128, "n_head": 4, "n_layer": 2, "rotary_dim": 16,
        "n_positions": 192, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    },
    "esm": {
        "model_type": "esm", "intermediate_size": 256, "max_position_embeddings": 194, "pad_token_id": 1,
        "mask_token_id": 3, "position_embedding_type": "rotary", "token_dropout": True, **SIZES,
    },
    "granite": {
        "model_type": "granite", "intermediate_size": 256, "max_position_embeddings": 192, "num_key_value_heads": 2,
        "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
    "gemma2": {
        "model_type": "gemma2", "intermediate_size": 256, "max_position_embeddings": 192, "num_key_value_heads": 2,
        "head_dim": 32, "query_pre_attn_scalar": 32, "attn_logit_softcapping": 5.0, "sliding_window": 16,
        "layer_types": ["full_attention", "sliding_attention"], "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2, **SIZES,
    },
    "gemma3-both-ways": {
        "model_type": "gemma3_text", "intermediate_size": 256, "max_position_embeddings": 192,
        "num_key_value_heads": 2, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 24,
        "use_bidirectional_attention": True, "layer_types": ["full_attention", "sliding_attention"],
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
    "llama-scaled": {
        "model_type": "llama", "intermediate_size": 256, "max_position_embeddings": 192, "num_key_value_heads": 2,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **SIZES,
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        },
    },
    "nomic": {
        "model_type": "nomic_bert", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
    "deberta": {
        "model_type": "deberta-v2", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16,
        "max_relative_positions": 64, "norm_rel_ebd": "layer_norm", "share_att_key": True, "type_vocab_size": 0,
        "position_biased_input": False, **SIZES,
    },
    "bloom": {
        "model_type": "bloom", "vocab_size": 400, "hidden_size": 128, "n_layer": 2, "n_head": 4, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2,
    },
    "longformer": {
        "model_type": "longformer", "intermediate_size": 256, "max_position_embeddings": 194, "pad_token_id": 1,
        "attention_window": [8, 8], "bos_token_id": 0, "eos_token_id": 2, **SIZES,
    },
    "gpt_neo": {
        "model_type": "gpt_neo", "vocab_size": 400, "hidden_size": 128, "num_layers": 2, "num_heads": 4,
        "window_size": 16, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 192,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    },
    "xmod": {
        "model_type": "xmod", "intermediate_size": 256, "max_position_embeddings": 194, "pad_token_id": 1,
        "bos_token_id": 3, "eos_token_id": 2, "languages": ["en_XX", "de_DE"], "default_language": "de_DE", **SIZES,
    },
    "luke": {
        "model_type": "luke", "intermediate_size": 256, "max_position_embeddings": 194, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "entity_vocab_size": 10, "entity_emb_size": 16, **SIZES,
    },
    "convbert": {
        "model_type": "convbert", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "embedding_size": 64, "head_ratio": 2, "conv_kernel_size": 9, **SIZES,
    },
    "camembert": {
        "model_type": "camembert", "intermediate_size": 256, "max_position_embeddings": 194, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1, **SIZES,
    },
    "qwen2_vl": {
        "model_type": "qwen2_vl_text", "intermediate_size": 256, "max_position_embeddings": 192,
        "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **SIZES,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
    },
    "bert-ragged": {
        "model_type": "bert", "intermediate_size": 256, "max_position_embeddings": 192, **SIZES, "hidden_size": 96,
    },
    "roformer": {
        "model_type": "roformer", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "embedding_size": 128, **SIZES,
    },
    "phi": {
        "model_type": "phi", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, **SIZES,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    },
    "phi3": {
        "model_type": "phi3", "intermediate_size": 256, "max_position_embeddings": 192, "num_key_value_heads": 2,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
    "bloom-12": {
        "model_type": "bloom", "vocab_size": 400, "hidden_size": 192, "n_layer": 2, "n_head": 12, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2,
    },
    "deberta-conv": {
        "model_type": "deberta-v2", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16,
        "max_relative_positions": 64, "norm_rel_ebd": "layer_norm", "share_att_key": True, "type_vocab_size": 0,
        "position_biased_input": False, "conv_kernel_size": 3, "conv_act": "gelu", **SIZES,
    },
    "big_bird": {
        "model_type": "big_bird", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "attention_type": "block_sparse", **SIZES,
    },
    "clip": {
        "model_type": "clip_text_model", "intermediate_size": 256, "max_position_embeddings": 77, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
    "gte": {
        "model_type": "gte", "intermediate_size": 256, "max_position_embeddings": 192, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, **SIZES,
    },
})  # fmt: skip


@lru_cache(maxsize=len(SUBJECTS))
def stock_model(name: str) -> Any:
    """The stock model of a subject with calibrated weights, fp32, eval, CPU. Shared: it must not be changed."""
    from pipeline.weights.synthetic.build import synthesise

    return synthesise(SUBJECTS[name]).model
