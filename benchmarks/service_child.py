"""A stage's child without a model, `service_child.py STAGE SPEC OUT`: sleeps or computes if its model is named so."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

SECONDS = 1.0
ROUNDS = 9_000_000


def main(stage: str, spec: Path, out: Path) -> None:
    """Do what the model's name says, then pass."""
    document = json.loads(spec.read_text())
    if "sleep" in document["model"]:
        time.sleep(SECONDS)
    if "compute" in document["model"]:
        total = 0
        for number in range(ROUNDS):
            total += number
    answer = {"outcome": "passed", "fingerprint": document["family"]}
    if stage == "execute":
        answer |= {"weights": "synthetic", "measurements": {"worst_token_cosine": 0.999}}
    out.write_text(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
