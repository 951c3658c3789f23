"""Drafted code for a model is tried as a document captured in the sandbox; a test run tells sizes only."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.drafters.llm.form import Form
from agents.drafters.llm.messages import ToolCall
from agents.drafters.llm.settings import Limits
from agents.drafters.llm.workbench import Workbench
from agents.errors import CandidateRefused
from agents.types import Candidate, Diagnosis, Drafter, Failure, FailureKind, PatchDraft
from pipeline.diagnosis.reproducer.script import Setting, script_for
from pipeline.diagnosis.reproducer.signature import ErrorClass, Signature
from pipeline.diagnosis.wrong_values.programs import Input, Operation, Program, Ref
from pipeline.drafting.trials import candidate_tester, capture_validated, reproducer_runner
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


ERF = "aten.erf.default"


def refused_erf() -> Diagnosis:
    """An operation that the profile lacks, with the script that shows the refusal."""
    erf = Operation("v0", torch.ops.aten.erf.default, (Ref("x0"),), {})
    program = Program((erf,), (Input("x0", torch.ones(2, 64), torch.float16),), ("v0",))
    failure = Failure(FailureKind.UNSUPPORTED_OP, ERF, "modeling_esm.py:1", "layer.*", "no erf", dtype_run="float16")
    script = script_for(failure, program, Setting("m", "profile-2026-08"))
    signature = asdict(Signature(FailureKind.UNSUPPORTED_OP, ERF, ErrorClass.RAISED))
    return Diagnosis(failure, evidence={"reproducer": {"script": script, "signature": signature}})


def tool_answer(diagnosis: Diagnosis) -> str:
    """What the tool says to the model."""

    def nothing(code: str, claim: Any) -> Candidate:
        raise AssertionError("nothing is drafted here")

    reproduce = partial(reproducer_runner("profile-2026-08"), [diagnosis])
    bench = Workbench("m", Form.MODEL, "", nothing, None, Limits(), reproduce=reproduce)
    return bench.use(ToolCall("run_reproducer", {}, "1")).text


def test_the_tool_runs_a_real_reproducer_in_a_fresh_process_and_tells_what_failed() -> None:
    said = tool_answer(refused_erf())
    assert "'passed': False" in said
    assert "'kind': 'unsupported_op'" in said
    assert ERF in said


def test_a_reproducer_that_fails_no_more_passes_and_without_a_script_there_is_none() -> None:
    broken = refused_erf()
    broken.evidence["reproducer"]["script"] = "print('all is well')\n"
    assert "'passed': True" in tool_answer(broken)
    broken.evidence["reproducer"] = {"script": None, "reason": "nothing is refused by itself"}
    assert "no reproducer is stored" in tool_answer(broken)
