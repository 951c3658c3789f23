"""Sizes of a model from its configuration: one vocabulary for the many field names, hard limits, a parameter estimate.

Limits are checked on plain JSON before anything is built, so that an absurd configuration costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Config = Mapping[str, Any]

ALIASES: dict[str, tuple[str, ...]] = {
    "vocab": ("vocab_size", "n_words"),
    "hidden": ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embed_dim"),
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers", "depth"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim", "d_kv"),
    "intermediate": ("intermediate_size", "n_inner", "d_ff", "hidden_dim", "encoder_ffn_dim"),
    "positions": ("max_position_embeddings", "n_positions"),
    "embedding": ("embedding_size",),
    "types": ("type_vocab_size",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
}
"""What we call a size, and the names configurations use for it, first match wins."""

LIMITS: dict[str, int] = {
    "vocab": 4_000_000,
    "hidden": 65_536,
    "layers": 1_024,
    "heads": 1_024,
    "kv_heads": 1_024,
    "head_dim": 8_192,
    "intermediate": 1_048_576,
    "positions": 33_554_432,
    "embedding": 65_536,
    "types": 65_536,
    "experts": 4_096,
}
"""Largest value taken for each size: several times what any published model uses."""

MAX_PARAMETERS = 100_000_000_000
"""Above this the factory does not even build a graph on fake tensors."""

ZERO_ALLOWED = frozenset({"types", "layers", "experts", "vocab"})
NESTED = ("text_config", "vision_config", "audio_config", "encoder", "decoder")
_TEXT = ("text_config", "encoder")
_GATED_TYPES = frozenset({"gte", "new"})
_SHARED_LAYER_TYPES = frozenset({"albert"})


class SizeFault(NamedTuple):
    """A size that cannot be used: `kind` is a stored failure kind, `message` one sentence without the model's name."""

    kind: str
    message: str


@dataclass(frozen=True)
class Sizes:
    """Sizes of one tower; None where the configuration does not say."""

    vocab: int | None = None
    hidden: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    intermediate: int | None = None
    positions: int | None = None
    embedding: int | None = None
    types: int | None = None
    experts: int | None = None


def text_config(config: Config) -> Config:
    """The configuration of the tower that embeds text: nested in composite models, else the whole."""
    for name in _TEXT:
        if isinstance(config.get(name), Mapping):
            return config[name]
    return config


def text_sizes(config: Config) -> Sizes:
    """Sizes of the text tower, with `head_dim` filled in from hidden / heads. Call after `size_fault` found none."""
    return _sizes(text_config(config))


def size_fault(config: Config) -> SizeFault | None:
    """The first size that is no usable number, is out of bounds, or does not fit the others; None if all are well."""
    for prefix, tower in _towers(config):
        fault = _tower_fault(prefix, tower)
        if fault:
            return fault
    estimate = estimate_parameters(config)
    if estimate is not None and estimate > MAX_PARAMETERS:
        return SizeFault("too_large", f"its config describes about {estimate:,} parameters, beyond {MAX_PARAMETERS:,}")
    return None


def estimate_parameters(config: Config) -> int | None:
    """Parameters from sizes alone: embeddings, attention and feed-forward matrices of every tower; None if unknown.

    A rough figure for limits and for choosing a machine; biases, norms and special layers are not counted.
    """
    counts = [_tower_parameters(tower) for _, tower in _counted_towers(config)]
    known = [c for c in counts if c is not None]
    return sum(known) if known else None


def _towers(config: Config) -> Iterator[tuple[str, Config]]:
    yield "", config
    for name in NESTED:
        if isinstance(config.get(name), Mapping):
            yield f"{name}.", config[name]


def _counted_towers(config: Config) -> Iterator[tuple[str, Config]]:
    """Nested towers where there are any (an embedding uses no decoder), else the configuration itself."""
    nested = [(p, t) for p, t in _towers(config) if p and p != "decoder."]
    return iter(nested or [("", config)])


def _field(config: Config, size: str) -> tuple[str, Any] | None:
    return next(((n, config[n]) for n in ALIASES[size] if config.get(n) is not None), None)


def _tower_fault(prefix: str, tower: Config) -> SizeFault | None:
    for size, limit in LIMITS.items():
        found = _field(tower, size)
        fault = _value_fault(prefix + found[0], found[1], size, limit) if found else None
        if fault:
            return fault
    return _head_fault(prefix, _sizes(tower))


def _value_fault(name: str, value: Any, size: str, limit: int) -> SizeFault | None:
    if isinstance(value, list):
        return next(filter(None, (_value_fault(name, v, size, limit) for v in value[: LIMITS["layers"]])), None)
    if isinstance(value, bool) or not isinstance(value, int):
        return SizeFault("malformed", f"its config has {name} = {value!r:.40}, not a whole number")
    if value < 0 or (value == 0 and size not in ZERO_ALLOWED):
        return SizeFault("malformed", f"its config has {name} = {value}, not a positive number")
    if value > limit:
        return SizeFault("too_large", f"its config has {name} = {_shown(value)}, beyond the limit of {limit:,}")
    return None


def _shown(value: int) -> str:
    """A whole number of any size in a few characters."""
    return f"{value:,}" if value < 10**15 else f"a number of {len(str(value))} digits"


def _head_fault(prefix: str, sizes: Sizes) -> SizeFault | None:
    if sizes.hidden and sizes.heads and sizes.head_dim is None:
        return SizeFault(
            "malformed", f"its config has {prefix}hidden size {sizes.hidden}, not divisible by {sizes.heads} heads"
        )
    return None


def _sizes(tower: Config) -> Sizes:
    values = {size: _integer(_field(tower, size)) for size in ALIASES}
    if values["head_dim"] is None and values["hidden"] and values["heads"]:
        quotient, rest = divmod(values["hidden"], values["heads"])
        values["head_dim"] = None if rest else quotient
    return Sizes(**values)


def _integer(found: tuple[str, Any] | None) -> int | None:
    return found[1] if found and isinstance(found[1], int) and not isinstance(found[1], bool) else None


def _tower_parameters(tower: Config) -> int | None:
    s = _sizes(tower)
    if not s.hidden:
        return None
    width = s.embedding or s.hidden
    learned = 0 if _has_rotary(tower) else (s.positions or 0)
    embeddings = ((s.vocab or 0) + (s.types or 0) + learned) * width + (s.hidden * width if width != s.hidden else 0)
    layers = 1 if tower.get("model_type") in _SHARED_LAYER_TYPES else (s.layers or 0)
    return embeddings + layers * (_attention_parameters(s) + _feed_forward_parameters(tower, s))


def _attention_parameters(s: Sizes) -> int:
    hidden, heads = s.hidden or 0, s.heads or 1
    head_dim = s.head_dim or hidden // heads
    return 2 * hidden * head_dim * (heads + (s.kv_heads or heads))


def _feed_forward_parameters(tower: Config, s: Sizes) -> int:
    hidden = s.hidden or 0
    matrices = 3 if _is_gated(tower) else 2
    return matrices * hidden * (s.intermediate or 4 * hidden) * max(1, s.experts or 1)


def _has_rotary(tower: Config) -> bool:
    return any("rope" in key or "rotary" in key for key in tower) or tower.get("position_embedding_type") == "rotary"


def _is_gated(tower: Config) -> bool:
    activation = str(tower.get("hidden_act", ""))
    return (
        "rms_norm_eps" in tower
        or "hidden_activation" in tower
        or activation in {"silu", "swiglu", "geglu"}
        or str(tower.get("feed_forward_proj", "")).startswith("gated")
        or tower.get("model_type") in _GATED_TYPES
    )
