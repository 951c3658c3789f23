"""Every released patch alone on a tiny model of its family, captured in one child: `released.py OUT.json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("input_ids", "attention_mask")
SHAPE = (4, 24)


class Released(NamedTuple):
    """One patch of one released adapter."""

    adapter: str
    head_dim: int
    patch: dict[str, Any]

    @property
    def label(self) -> str:
        return f"{self.adapter} {self.patch['pattern']}"


def config_for(head_dim: int) -> dict[str, Any]:
    """A BERT of two heads and two layers."""
    return {
        "model_type": "bert", "vocab_size": 100, "hidden_size": 2 * head_dim, "intermediate_size": 4 * head_dim,
        "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 80, "pad_token_id": 0,
    }  # fmt: skip


def released_patches() -> Iterator[Released]:
    """In order of adapter and patch; every adapter of the release folder must be of a family made here."""
    import adapters.releases

    for path in sorted(Path(str(adapters.releases.__file__)).parent.glob("*.json")):
        manifest = json.loads(path.read_text())
        assert manifest["predicate"]["block"].endswith("BertLayer"), path.name
        for patch in manifest["patches"]:
            yield Released(manifest["name"], manifest["predicate"]["head_dim"], patch)


def capture_all() -> dict[str, Any]:
    from agents.capture.case import Case
    from agents.capture.model import capture_patched, capture_stock

    found: dict[str, Any] = {}
    for released in released_patches():
        config, stock = config_for(released.head_dim), f"stock {released.head_dim}"
        if stock not in found:
            found[stock] = capture_stock(config, [Case(*SHAPE, "float32", NAMES)])[0]
        found[released.label] = capture_patched(config, [released.patch], [Case(*SHAPE, "float16", NAMES)])[0]
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(capture_all()))
