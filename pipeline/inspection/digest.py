"""`config_digest`: one digest for all configurations that give the same operator graph.

Fields are left out only if they are known not to reach the graph of an embedding run; a field nobody has heard of is
kept, so that two different graphs never share a digest. Defaults are not filled in: an explicit default and an absent
field give two digests, which costs a capture and never a wrong answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from agents.types import canonical

IRRELEVANT = frozenset(
    {
        "_name_or_path",
        "name_or_path",
        "_commit_hash",
        "transformers_version",
        "architectures",
        "auto_map",
        "id2label",
        "label2id",
        "num_labels",
        "problem_type",
        "task_specific_params",
        "finetuning_task",
        "initializer_range",
        "initializer_factor",
        "classifier_dropout",
        "gradient_checkpointing",
        "use_cache",
        "bos_token_id",
        "eos_token_id",
        "sep_token_id",
        "cls_token_id",
        "mask_token_id",
        "decoder_start_token_id",
        "forced_eos_token_id",
        "torch_dtype",
        "dtype",
        "output_past",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "tie_weights_",
        "tokenizer_class",
        "sentence_transformers",
        "custom_pipelines",
        "max_length",
        "min_length",
        "num_beams",
        "do_sample",
        "temperature",
        "top_k",
        "top_p",
    }
)
"""Names, training, generation and token ids that only the tokenizer uses. `pad_token_id` stays: position ids use it."""

_DROPOUT = ("dropout", "dropout_prob", "_drop", "_pdrop", "dropout_rate", "dropout_p")


def config_digest(config: Mapping[str, Any]) -> str:
    """sha256 (64 hex) of the canonical JSON of the fields that shape the graph. The run's dtype is not among them."""
    return hashlib.sha256(canonical(graph_fields(config))).hexdigest()


def graph_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without the fields that cannot reach the graph, nested configurations included."""
    return {key: _nested(value) for key, value in config.items() if _shapes_graph(key)}


def _nested(value: Any) -> Any:
    return graph_fields(value) if isinstance(value, Mapping) else value


def _shapes_graph(key: str) -> bool:
    return key not in IRRELEVANT and not key.endswith(_DROPOUT)
