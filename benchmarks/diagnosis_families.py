"""Two-layer models of width 128 from many families, with weights from a seed."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.diagnosis_modules import CONSTRUCTED, constructed

VOCABULARY = 160
_VOCABULARY: dict[str, Any] = {"vocab_size": VOCABULARY}
_COMMON: dict[str, Any] = {**_VOCABULARY, "num_hidden_layers": 2}
_LONGEST: dict[str, Any] = {"max_position_embeddings": 256}
_ENCODER = {**_COMMON, **_LONGEST, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 256}
_DECODER = {**_ENCODER, "num_key_value_heads": 2, "head_dim": 64}
_OPT = {"word_embed_proj_dim": 128}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", _ENCODER),
    "bert-gelu_new": ("bert", {**_ENCODER, "hidden_act": "gelu_new"}),
    "roberta": ("roberta", _ENCODER),
    "xlm-roberta": ("xlm-roberta", {**_ENCODER, "type_vocab_size": 1}),
    "electra": ("electra", {**_ENCODER, "embedding_size": 128}),
    "mpnet": ("mpnet", _ENCODER),
    "distilbert": ("distilbert", {**_VOCABULARY, **_LONGEST, "dim": 128, "n_heads": 2, "n_layers": 2,
                                  "hidden_dim": 256}),
    "albert": ("albert", {**_ENCODER, "embedding_size": 128, "hidden_act": "gelu_new"}),
    "modernbert": ("modernbert", {**_ENCODER, "pad_token_id": 0, "local_attention": 16}),
    "gpt2": ("gpt2", {**_VOCABULARY, "n_embd": 128, "n_head": 2, "n_layer": 2, "n_positions": 256}),
    "opt": ("opt", {**_COMMON, **_LONGEST, "hidden_size": 128, "num_attention_heads": 2, "ffn_dim": 256, **_OPT}),
    "qwen2": ("qwen2", {k: v for k, v in _DECODER.items() if k != "head_dim"}),
    "qwen3": ("qwen3", _DECODER),
    "mistral": ("mistral", _DECODER),
    "gemma3": ("gemma3_text", {**_DECODER, "query_pre_attn_scalar": 64, "sliding_window": 16}),
    "gpt_neox": ("gpt_neox", _ENCODER),
    "t5": ("t5", {**_VOCABULARY, "d_model": 128, "d_kv": 64, "d_ff": 256, "num_layers": 2, "num_heads": 2}),
}  # fmt: skip
"""Family: transformers' name of the configuration, and its fields. Heads of 64 fill whole sticks."""


def build(family: str) -> Any:
    """The stock model of a family, or a constructed one, fp32 on the CPU, eval.

    Norms and biases are drawn as well, so that nothing is an identity.
    """
    torch.manual_seed(0)
    model = constructed(family) if family in CONSTRUCTED else _stock(*FAMILIES[family])
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            _draw(parameter, generator)
    return model


def _stock(name: str, fields: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    from pipeline.weights.synthetic.build import build_stock

    return build_stock(AutoConfig.for_model(name, **fields))


def _draw(parameter: torch.nn.Parameter, generator: torch.Generator) -> None:
    """Matrices of spread 1/√fan_in (twice that for sharper attention), gains about 1, biases about 0."""
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.ndim > 1:
        parameter.copy_(noise * 1.5 / parameter.shape[-1] ** 0.5)
    else:
        centre = parameter.mean().round() if parameter.numel() else 0.0
        parameter.copy_(centre + 0.1 * noise)
