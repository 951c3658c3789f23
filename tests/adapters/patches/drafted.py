"""Captures a tiny model for the cases of a released set and writes the documents to a file: `drafted.py OUT.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 120,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 128,
}
PATCHES: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}},
    {"pattern": "P54", "parameters": {}},
    {"pattern": "P61", "parameters": {}},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
]


def main() -> None:
    """Capture and write."""
    from adapters.replay.documents import cases_for
    from agents.capture.case import Case
    from agents.capture.model import capture_patched

    cases = [Case(*shape, "float16") for shape in cases_for(100, limit=128)]
    Path(sys.argv[1]).write_text(json.dumps({"documents": capture_patched(CONFIG, PATCHES, cases)}))


if __name__ == "__main__":
    main()
