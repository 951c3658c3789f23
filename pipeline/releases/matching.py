"""Which adapter serves a checkpoint: decided from its configuration alone, so that no model is built to find out.

A family is the digest of what shapes a model's modules; how many layers it has and how wide they are is left out.
Inspection names it from the model's real structure; until then `family_of` names it from the configuration. The adapter
checks the structure again when it is applied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from agents.types import canonical

STRUCTURE_FIELDS = (
    "model_type",
    "activation",
    "activation_function",
    "dense_act_fn",
    "hidden_act",
    "hidden_activation",
    "ffn_type",
    "hidden_act_fn",
    "position_embedding_type",
    "relative_attention",
    "rope_scaling",
    "norm_type",
    "attention_bias",
    "mlp_bias",
    "qkv_bias",
    "use_bidirectional_attention",
    "is_gated_act",
    "feed_forward_proj",
    "layer_types",
)
"""Configuration fields that choose modules or operations, as far as transformers' embedding models have them."""
_HEADS = ("num_attention_heads", "n_heads", "num_heads")
_WIDTHS = ("hidden_size", "dim", "d_model")


def family_of(config: Mapping[str, Any]) -> str:
    """The family of a configuration: `<model type>-h<head size>-<digest>`; the digest decides, the rest is to read."""
    text = _text_config(config)
    fields = {name: text[name] for name in STRUCTURE_FIELDS if text.get(name) is not None}
    if "layer_types" in fields:
        fields["layer_types"] = sorted(set(fields["layer_types"]))
    fields["head_dim"] = head_size(text)
    fields["grouped"] = bool(text.get("num_key_value_heads")) and text["num_key_value_heads"] != _first(text, _HEADS)
    digest = hashlib.sha256(canonical(fields)).hexdigest()[:12]
    return f"{text.get('model_type', 'unknown')}-h{fields['head_dim']}-{digest}"[:64]


def head_size(config: Mapping[str, Any]) -> int | None:
    """Elements per attention head; None where the configuration does not say."""
    stated = config.get("head_dim") or config.get("d_kv")
    heads, width = _first(config, _HEADS), _first(config, _WIDTHS)
    if isinstance(stated, int):
        return stated
    return width // heads if heads and width else None


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((config[n] for n in names if isinstance(config.get(n), int) and config[n] > 0), None)


def matches(predicate: Mapping[str, Any], family: str | None, config: Mapping[str, Any] | None) -> bool:
    """True if the predicate admits the checkpoint: `families` names its family, or every `config` condition holds.

    A condition is a value, a list of allowed values, or `{"min": a, "max": b}`. An empty predicate admits nothing.
    """
    families = predicate.get("families") or ()
    if families:
        return family in families
    conditions = predicate.get("config") or {}
    facts = {**(_text_config(config or {})), "head_size": head_size(_text_config(config or {}))}
    return bool(conditions) and all(_holds(wanted, facts.get(name)) for name, wanted in conditions.items())


def _holds(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, Mapping):
        return value is not None and wanted.get("min", value) <= value <= wanted.get("max", value)
    return value in wanted if isinstance(wanted, list) else value == wanted
