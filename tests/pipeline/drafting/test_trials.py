"""Drafted code for a model is tried as a document captured in the sandbox; a test run tells sizes only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.errors import CandidateRefused
from agents.types import Candidate, Drafter, PatchDraft
from pipeline.drafting.trials import candidate_tester, capture_validated
from pipeline.execution.subject import Subject

CONFIG: dict[str, Any] = {
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 400, "hidden_size": 128, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 256, "max_position_embeddings": 160,
}  # fmt: skip
LIBRARY = [("P56", {"dtype": "float16"}), ("P40", {"fill": "finfo_min_half"}), ("P54", {}), ("P61", {}),
           ("P63", {"multiple": 64, "side": "right"})]  # fmt: skip
LOOP = "import torch\n\n\ndef apply(model):\n    for layer in model.encoder.layer:\n        "
SAME = LOOP + ("layer.output.dense.weight = torch.nn.Parameter(layer.output.dense.weight * 1, requires_grad=False)\n")


def candidate(source: str) -> Candidate:
    library = [PatchDraft(pattern, parameters, Drafter.RULES) for pattern, parameters in LIBRARY]
    code = PatchDraft("code", {"source": source}, Drafter.LLM, model="m", source=source)
    return Candidate("bert", "profile-2026-08", "float16", (*library, code))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.sandbox
def test_code_is_tried_in_the_sandbox_and_its_sizes_are_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    test = candidate_tester(Subject("m", tmp_path, "profile-2026-08", tmp_path))
    told = test(candidate(SAME))
    assert told == {"passed": True, "kind": None, "op": None, "error": None}


@pytest.mark.parametrize("code", ["import os\ndef forward(x):\n    return x", "def forward(x):\n    return open(x)"])
def test_the_gates_lint_comes_before_the_sandbox(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: Any, **__: Any) -> Any:
        raise AssertionError("the sandbox was begun")

    monkeypatch.setattr("agents.sandbox.capture.capture_in_sandbox", begun)
    with pytest.raises(CandidateRefused, match=r"the code is refused: .*may not be"):
        capture_validated(code, {})
