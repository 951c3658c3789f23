"""Every released patch alone on a tiny model of its family, captured in one child: `released.py OUT.json FAMILY`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("input_ids", "attention_mask")
SHAPE = (4, 24)
AFTER = {"P21": ("P27",), "P30": ("P14",)}
"""Pattern -> those it needs before it where the adapter has them: projections split, rotary tables on the host."""
OWN: dict[str, dict[str, Any]] = {
    "modernbert": {
        "local_attention": 8, "layer_types": ["full_attention", "sliding_attention"], "bos_token_id": 1,
        "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
    },
    "gemma2": {"sliding_window": 8},
    "gemma3_text": {"sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]},
    "deberta-v2": {
        "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "position_buckets": 8,
        "max_relative_positions": 24, "norm_rel_ebd": "layer_norm", "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "qwen2_5_omni_text": {"architectures": ["Qwen2_5OmniThinkerTextModel"]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
}  # fmt: skip
"""Model type -> what it needs besides the sizes: its window is shorter than the text, its ids lie in the vocabulary.
Relative positions reach less far than the text, too."""


class Released(NamedTuple):
    """One patch of one family of a released adapter, and those that have to come before it."""

    family: str
    predicate: dict[str, Any]
    before: tuple[dict[str, Any], ...]
    patch: dict[str, Any]

    @property
    def label(self) -> str:
        return f"{self.family} {self.patch['pattern']}"

    @property
    def unpatched(self) -> str:
        """The label of the document that lacks this patch only."""
        return f"{self.stock} {' '.join(p['pattern'] for p in self.before)}".rstrip()

    @property
    def stock(self) -> str:
        return f"stock {self.family}"

    @property
    def head_dim(self) -> int:
        """The predicate's; of projections that are still fused it is not known there, but the family's name says it."""
        return int(self.predicate["head_dim"] or self.family.split("-")[1].removeprefix("h"))


def config_for(released: Released) -> dict[str, Any]:
    """Two layers and two heads (as many more as share keys) of the model whose block the predicate names.

    Widths that are no whole sticks are those of the predicate: heads fill the first of them, if any.
    """
    kind, heads = kind_of(released.predicate), 2 * (released.predicate["kv_groups"] or 1)
    named = [int(width) for width in released.predicate.get("part_sticks", "").split("/") if width]
    width = next((n for n in named if n % released.head_dim == 0), heads * released.head_dim)
    heads, inner = width // released.head_dim, next((n for n in named if n != width), 2 * width)
    sizes = {
        "vocab_size": 100, "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": 2,
        "num_attention_heads": heads, "num_key_value_heads": 2, "head_dim": released.head_dim,
        "max_position_embeddings": 80, "pad_token_id": 0, **OWN.get(kind, {}),
    }  # fmt: skip
    return {"model_type": kind, **sizes, **said_by(released.predicate, kind)}


def said_by(predicate: dict[str, Any], kind: str) -> dict[str, Any]:
    """What tells the members of one block from each other, in the words of the model's configuration."""
    if kind == "t5":
        return {"feed_forward_proj": predicate["hidden_act"]}
    if kind == "gemma3_text":
        return {"use_bidirectional_attention": not predicate["causal"]}
    return {}


def kind_of(predicate: dict[str, Any]) -> str:
    """The model type whose code is in the block's folder of transformers; of several the text part's."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name

    folder = predicate["block"].split(".")[2]
    kinds = [kind for kind in CONFIG_MAPPING_NAMES if model_type_to_module_name(kind) == folder]
    return str(max(kinds, key=lambda kind: kind == f"{folder}_text"))


def released_patches() -> Iterator[Released]:
    """In order of adapter, family and patch; every one must be of a family made here."""
    from adapters.releases.lookup import bundled_manifests

    for adapter in bundled_manifests():
        for manifest in map(adapter.for_family, adapter.families):
            for patch in manifest.patches:
                before = tuple(p for p in manifest.patches if p["pattern"] in AFTER.get(patch["pattern"], ()))
                yield Released(manifest.family, manifest.predicate, before, patch)


def families() -> list[str]:
    """Families with released patches, in order."""
    return list(dict.fromkeys(released.family for released in released_patches()))


def capture_all(family: str) -> dict[str, Any]:
    from agents.capture.case import Case
    from agents.capture.model import capture_patched, capture_stock

    found: dict[str, Any] = {}
    for released in (r for r in released_patches() if r.family == family):
        config = config_for(released)
        if released.stock not in found:
            found[released.stock] = capture_stock(config, [Case(*SHAPE, "float32", NAMES)])[0]
        if released.unpatched not in found:
            found[released.unpatched] = capture_patched(config, released.before, [Case(*SHAPE, "float16", NAMES)])[0]
        patches = [*released.before, released.patch]
        found[released.label] = capture_patched(config, patches, [Case(*SHAPE, "float16", NAMES)])[0]
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(capture_all(sys.argv[2])))
