"""Every released patch alone on a tiny model of its family, captured in one child: `released.py OUT.json FAMILY`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("input_ids", "attention_mask")
SHAPE = (4, 24)


class Released(NamedTuple):
    """One patch of one family of a released adapter."""

    family: str
    predicate: dict[str, Any]
    patch: dict[str, Any]

    @property
    def label(self) -> str:
        return f"{self.family} {self.patch['pattern']}"

    @property
    def stock(self) -> str:
        return f"stock {self.family}"


def config_for(predicate: dict[str, Any]) -> dict[str, Any]:
    """Two heads and two layers of the model whose block the predicate names."""
    kind, head_dim = predicate["block"].split(".")[2].replace("_", "-"), predicate["head_dim"]
    return {
        "model_type": kind, "vocab_size": 100, "hidden_size": 2 * head_dim, "intermediate_size": 4 * head_dim,
        "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 80, "pad_token_id": 0,
    }  # fmt: skip


def released_patches() -> Iterator[Released]:
    """In order of adapter, family and patch; every one must be of a family made here."""
    from adapters.releases.lookup import bundled_manifests

    for adapter in bundled_manifests():
        for manifest in map(adapter.for_family, adapter.families):
            for patch in manifest.patches:
                yield Released(manifest.family, manifest.predicate, patch)


def families() -> list[str]:
    """Families with released patches, in order."""
    return list(dict.fromkeys(released.family for released in released_patches()))


def capture_all(family: str) -> dict[str, Any]:
    from agents.capture.case import Case
    from agents.capture.model import capture_patched, capture_stock

    found: dict[str, Any] = {}
    for released in (r for r in released_patches() if r.family == family):
        config = config_for(released.predicate)
        if released.stock not in found:
            found[released.stock] = capture_stock(config, [Case(*SHAPE, "float32", NAMES)])[0]
        found[released.label] = capture_patched(config, [released.patch], [Case(*SHAPE, "float16", NAMES)])[0]
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(capture_all(sys.argv[2])))
