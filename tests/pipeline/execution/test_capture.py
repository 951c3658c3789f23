"""An adapter of the model's family that is made for other sizes: a failure of its own kind, not a crash of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.releases.lookup import bundled_manifests
from pipeline.execution.child import run_stage

H26 = next(f for m in bundled_manifests() if m.name == "bert-shaped" for f in m.families if "-h26-" in f)
BERT: dict[str, Any] = {
    "model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 2, "num_attention_heads": 12,
    "hidden_size": 312, "intermediate_size": 600, "vocab_size": 99, "max_position_embeddings": 64,
    "type_vocab_size": 2, "hidden_act": "gelu",
}  # fmt: skip


def captured(folder: Path, **over: Any) -> dict[str, Any]:
    (folder / "config.json").write_text(json.dumps({**BERT, **over}))
    adapter = next(m for m in bundled_manifests() if m.name == "bert-shaped").to_dict()
    spec = {"model": "a/x", "checkpoint_dir": str(folder), "workdir": str(folder), "profile": "profile-2026-08"}
    return run_stage("capture", {**spec, "adapter": adapter, "family": H26})


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"intermediate_size": 1000}, "P22: no feed-forward part of known form has an intermediate size of 600"),
        ({"num_attention_heads": 10, "hidden_size": 260}, "P23: the stream of residuals is not 312 wide everywhere"),
    ],
)
def test_an_adapter_for_other_sizes_is_a_failure_that_says_what_it_expected(
    tmp_path: Path, sizes: dict[str, int], says: str
) -> None:
    out = captured(tmp_path, **sizes)
    assert (out["outcome"], [f["kind"] for f in out["failures"]]) == ("failed", ["adapter_misfit"])
    assert out["reason"] == f"bert-shaped ({H26}) is made for other sizes and does not apply to this model: {says}"


def test_a_model_of_the_sizes_it_is_made_for_is_adapted(tmp_path: Path) -> None:
    assert captured(tmp_path)["outcome"] == "passed"
