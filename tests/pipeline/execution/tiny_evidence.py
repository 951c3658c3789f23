"""Evidence of a tiny BERT under an adapter, with synthetic weights and no tokenizer, for tests of its replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.execution.check import base_spec, run_stage
from pipeline.verification.evidence import EVIDENCE_NAME, unpack_evidence

PROFILE = "profile-2026-08"
CONFIG = {
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 400, "hidden_size": 128,
    "num_attention_heads": 2, "intermediate_size": 256, "num_hidden_layers": 2, "max_position_embeddings": 160,
    "hidden_act": "gelu", "pad_token_id": 0, "type_vocab_size": 2, "torch_dtype": "float32",
}  # fmt: skip
PATCHES: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}},
    {"pattern": "P54", "parameters": {}},
    {"pattern": "P61", "parameters": {}},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
]


def evidence_of(spec: dict[str, Any], work: Path) -> dict[str, Any]:
    """The evidence document of a fresh execution."""
    out = run_stage("execute", spec)
    assert out["outcome"] == "passed", out["reason"]
    assert [a["name"] for a in out["artefacts"]] == [EVIDENCE_NAME]
    return unpack_evidence((work / EVIDENCE_NAME).read_bytes())


def tiny_evidence_in(folder: Path, work: Path, *, layers: int) -> dict[str, Any]:
    """Evidence of the tiny model: its configuration goes into `folder`, the run into `work`."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": layers}))
    spec = base_spec(str(folder), PROFILE, "synthetic", "simulator", work)
    return evidence_of({**spec, "adapter": {"patches": PATCHES}}, work)
