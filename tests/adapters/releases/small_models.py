"""A small stock model for each family of each bundled adapter: its own structure and heads, few numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import nn

from adapters.describe import describe
from adapters.releases.lookup import DEFAULT_PROFILE
from adapters.releases.lookup import bundled_manifests as manifests
from benchmarks.families import adapter_names, entry_of
from pipeline.releases.service import bundled_manifests, families_of
from pipeline.weights.synthetic.build import build_stock, load_config
from tests.adapters.conftest import lively

RELEASED = [(m["name"], f) for m in bundled_manifests() if m["profile"] == DEFAULT_PROFILE for f in families_of(m)]
"""(adapter, family) of everything that is bundled for the default profile."""
HEADS = ("num_attention_heads", "n_heads", "num_heads", "n_head")
WIDTHS = ("hidden_size", "dim", "d_model", "n_embd", "emb_dim")
INNER = ("intermediate_size", "hidden_dim", "d_ff", "n_inner")
STICK = 64
SMALL = {"vocab_size": 100, "max_position_embeddings": 140, "n_positions": 140, "embedding_size": 64}
WINDOWS = {"sliding_window": 8, "local_attention": 12}


def shrunk(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with as few heads as keep the groups, of their own size; of parts, the one that reads text.

    Sizes that are no whole sticks stay: a patch pads just these.
    """
    if isinstance(config.get("text_config"), dict):
        return {**config, "text_config": shrunk(config["text_config"])}
    heads, width = (next(n for n in names if config.get(n)) for names in (HEADS, WIDTHS))
    size = config.get("head_dim") or config.get("d_kv") or config[width] // config[heads]
    keys = config.get("num_key_value_heads") or config[heads]
    groups = config[heads] // keys
    few = {heads: max(2, groups), width: max(2, groups) * size} if config[width] % STICK == 0 else {}
    few |= {"num_key_value_heads": 1 if groups > 1 else 2} if config.get("num_key_value_heads") else {}
    few |= {name: 128 for name in INNER if config.get(name) and config[name] % STICK == 0}
    few |= {name: value for name, value in {**SMALL, **WINDOWS}.items() if config.get(name)}
    ids = sorted(k for k, v in config.items() if k.endswith("_token_id") and isinstance(v, int) and v >= 100)
    return {**config, **few, **{name: 3 + place for place, name in enumerate(ids)}}


def small_model(adapter: str, family: str) -> nn.Module:
    """The model of `family`, lively weights, fp32. Fails if no family of the adapter's list gives it."""
    predicate = next(m for m in manifests() if m.name == adapter).for_family(family).predicate
    for name in adapter_names()[adapter]:
        if described(name) == predicate:
            return lively(build_stock(load_config(shrunk(entry_of(name).config))))
    raise AssertionError(f"no family of {adapter} in families.yaml is {family}")


@cache
def described(name: str) -> dict[str, Any]:
    """The description of a family of `families.yaml`, without weights."""
    return describe(load_config(shrunk(entry_of(name).config)))
