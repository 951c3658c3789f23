"""Prints the silent causes that the search finds in a two-layer encoder on the profile given, as JSON."""

from __future__ import annotations

import json
import sys

import torch
from transformers import BertConfig, BertModel

import sim_backend
from pipeline.diagnosis.wrong_values.search import silent_causes
from sim_backend.device import start


def inputs(length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(1, 99, (2, length), generator=torch.Generator().manual_seed(length))
    allowed = torch.zeros(2, 1, length, length)
    allowed[1, :, :, -length // 4 :] = -30_000.0
    return {"input_ids": ids, "attention_mask": allowed}


def main(profile: str) -> None:
    sim_backend.use_profile(profile)
    start()
    torch.manual_seed(0)
    config = BertConfig(vocab_size=99, hidden_size=128, num_attention_heads=2, num_hidden_layers=2,
                        intermediate_size=256, hidden_act="gelu_new", initializer_range=0.06)  # fmt: skip
    model = BertModel(config).eval()
    blocks = [(f"encoder.layer.{i}", block) for i, block in enumerate(model.encoder.layer)]
    search = silent_causes(model, blocks, {"whole": inputs(128), "ragged": inputs(40)})
    causes = [(f.op, f.scalars[0], f.source, f.module, f.layers) for f in (c.failure for c in search.findings)]
    sys.stdout.write(json.dumps({"causes": causes, "curves": search.curves, "unsearched": search.unsearched}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
