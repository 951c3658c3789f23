"""Prints the silent causes of a decoder with norms of heads and one shared key head on the August device, as JSON."""

from __future__ import annotations

import json
import sys

import torch
from transformers import Gemma3TextConfig, Gemma3TextModel

import adapters
import sim_backend
from adapters.structure import find_blocks
from pipeline.diagnosis.facts import model_facts
from pipeline.diagnosis.service import diagnose_findings
from pipeline.diagnosis.wrong_values.search import silent_causes
from sim_backend.device import start


def main() -> None:
    sim_backend.use_profile("profile-2026-08")
    start()
    torch.manual_seed(0)
    config = Gemma3TextConfig(vocab_size=99, hidden_size=128, num_attention_heads=2, num_key_value_heads=1, head_dim=64,
                              num_hidden_layers=1, intermediate_size=128, sliding_window=256,
                              initializer_range=0.1)  # fmt: skip
    model = Gemma3TextModel(config).eval()
    facts = model_facts(model)
    ids = torch.randint(1, 99, (2, 128), generator=torch.Generator().manual_seed(0))
    cures = [{"pattern": "P14"}, {"pattern": "P45"}]
    with adapters.adapt(model, patches=cures, device="cpu", dtype=torch.float32, compile=False):
        blocks = [(block.path, block.module) for block in find_blocks(model)]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        search = silent_causes(model, blocks, {"whole": inputs})
    found = [
        (d.failure.op, d.failure.module, d.failure.scalars[0], [use.pattern for use in d.patterns])
        for d in diagnose_findings(search.findings, facts)
    ]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
