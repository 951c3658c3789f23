"""The thirteen embedding checkpoints of facts 7.7: public sizes, written by hand, and how each is adapted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from anchors.verdicts import families

VOCABULARY = 3000
"""Rows of the token table: cut, as the recipe's calibration is; widths and heads are the real ones."""


@dataclass(frozen=True)
class Checkpoint:
    """`depth` layers are run of the published number; `quick` ones belong to `make test`."""

    name: str
    config: Any
    adapt: families.Adapt
    depth: int
    dtype: torch.dtype = torch.float16
    left: bool = False
    passes: bool = True
    quick: bool = False


def _bert(width: int, layers: int, heads: int, inner: int, **more: Any) -> transformers.BertConfig:
    return transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=inner, **more,
    )  # fmt: skip


_MPNET = transformers.MPNetConfig(vocab_size=VOCABULARY)
_BGE_M3 = transformers.XLMRobertaConfig(
    vocab_size=VOCABULARY, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
    type_vocab_size=1, max_position_embeddings=514, layer_norm_eps=1e-5,
)  # fmt: skip
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
_MODERNBERT = transformers.ModernBertConfig(vocab_size=VOCABULARY, **_SPECIAL)
_GRANITE = transformers.ModernBertConfig(
    vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536,
    **_SPECIAL,
)  # fmt: skip
_QWEN3 = transformers.Qwen3Config(
    vocab_size=VOCABULARY, hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
    head_dim=128, intermediate_size=3072, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
)  # fmt: skip
_MISTRAL = transformers.MistralConfig(vocab_size=VOCABULARY)
_QWEN2 = transformers.Qwen2Config(
    vocab_size=VOCABULARY, hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
    intermediate_size=8960, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
)  # fmt: skip
_GEMMA = transformers.Gemma3TextConfig(
    vocab_size=VOCABULARY, hidden_size=768, num_hidden_layers=24, num_attention_heads=3, num_key_value_heads=1,
    head_dim=256, intermediate_size=1152, query_pre_attn_scalar=256, use_bidirectional_attention=True,
    sliding_window=512,
)  # fmt: skip

CHECKPOINTS = (
    Checkpoint("all-MiniLM-L6-v2", _bert(384, 6, 12, 1536), families.bert, 6, quick=True),
    Checkpoint("bge-base-en-v1.5", _bert(768, 12, 12, 3072), families.bert, 2, quick=True),
    Checkpoint("all-mpnet-base-v2", _MPNET, families.mpnet, 2, quick=True),
    Checkpoint("bge-m3", _BGE_M3, families.bert, 24),
    Checkpoint("modernbert-embed-base", _MODERNBERT, families.modernbert, 3, quick=True),
    Checkpoint("gte-modernbert-base", _MODERNBERT, families.modernbert, 22),
    Checkpoint("granite-embedding-97m-multilingual-r2", _GRANITE, families.modernbert, 12),
    Checkpoint("Qwen3-Embedding-0.6B", _QWEN3, families.decoder, 2, left=True, quick=True),
    Checkpoint("E5-Mistral-7B", _MISTRAL, families.decoder, 1, left=True),
    Checkpoint("Linq-Embed-Mistral", _MISTRAL, families.decoder, 1, left=True),
    Checkpoint("SFR-Embedding-Mistral", _MISTRAL, families.decoder, 1, left=True),
    Checkpoint("embeddinggemma-300m", _GEMMA, families.gemma, 6, dtype=torch.bfloat16),
    Checkpoint("gte-Qwen2-1.5B-instruct", _QWEN2, families.decoder, 6, left=True, passes=False),
)
