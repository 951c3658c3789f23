"""A candidate is verified from documents: where they were captured, what is refused before anything runs, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.capture.case import Case
from agents.capture.weights import random_stock
from agents.errors import CandidateRefused, SandboxUnavailable
from agents.types import Candidate, Drafter, PatchDraft
from pipeline.errors import EnvironmentProblem
from pipeline.execution import documents
from pipeline.execution.capture_child import capture_in_child
from pipeline.execution.check import base_spec, run_stage
from pipeline.verification.measurements import EquivalenceResult
from pipeline.verification.replay import DocumentRefused, document_digest

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": 400,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 160,
}
LIBRARY: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}},
    {"pattern": "P54", "parameters": {}},
    {"pattern": "P61", "parameters": {}},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
]


def code(statement: str) -> dict[str, Any]:
    source = f"def apply(model):\n    for layer in model.encoder.layer:\n        {statement}\n"
    return {"pattern": "code", "parameters": {"source": source}}


RELU = code("layer.intermediate.intermediate_act_fn = torch.nn.ReLU()")
SAME = code("layer.output.dense.weight = torch.nn.Parameter(layer.output.dense.weight * 1, requires_grad=False)")
NO_BIAS = code("layer.output.dense.bias = None")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def batch(rows: int = 2, length: int = 64) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 400, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def captured(folder: Path, *patches: dict[str, Any]) -> documents.Captured:
    model = random_stock(CONFIG, seed=9)
    batches = [batch(), batch(2, 40)]
    return documents.capture_candidate(folder, model, patches, "float16", batches, seed=3)


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise SandboxUnavailable("no bubblewrap here")

    monkeypatch.setattr(documents, "capture_model_in_sandbox", refuse)


@pytest.mark.sandbox
def test_drafted_code_is_captured_in_the_sandbox_and_bound(folder: Path) -> None:
    found = captured(folder, *LIBRARY, SAME)
    assert found.where == "sandbox"
    assert "run in the sandbox" in found.bound
    assert [(d["batch"], d["length"]) for d in found.notes()["documents"]] == [(8, 64), (1, 64)], "as it is released"
    assert documents.judge_set(found, batch(), [*LIBRARY, SAME]).result is EquivalenceResult.EXACT
    judged = documents.judge_each(found, random_stock(CONFIG, seed=9), [*LIBRARY, SAME], seed=4)
    assert [e.patch for e in judged] == ["P56", "P40", "P54", "P61", "P63", "code"]
    assert {e.result for e in judged} == {EquivalenceResult.EXACT}


@pytest.mark.sandbox
def test_another_activation_in_code_is_not_equivalent(folder: Path) -> None:
    found = captured(folder, *LIBRARY, RELU)
    assert documents.judge_set(found, batch(), [*LIBRARY, RELU]).result is EquivalenceResult.NOT_EQUIVALENT
    judged = documents.judge_each(found, random_stock(CONFIG, seed=9), [*LIBRARY, RELU], seed=4)
    assert [e.result for e in judged[:-1]] == [EquivalenceResult.EXACT] * len(LIBRARY)
    assert judged[-1].result is EquivalenceResult.NOT_EQUIVALENT
    assert judged[-1].op == "block 0"
    assert judged[-1].bound is not None
    assert judged[-1].bound > 1e-3


def test_the_case_that_tells_most_is_longer_than_the_window_has_company_and_is_small() -> None:
    cases = [Case(*shape, "float16") for shape in ((1, 64), (5, 128), (2, 64), (3, 300))]
    assert documents.telling_case(cases, None) == 2
    assert documents.telling_case(cases, 64) == 1
    assert documents.telling_case(cases, 1000) == 3


@pytest.mark.sandbox
def test_code_that_leaves_a_weight_out_is_refused(folder: Path) -> None:
    with pytest.raises(
        DocumentRefused, match=r"leaves out 2 weights, such as 'encoder\.layer\.0\.output\.dense\.bias'"
    ):
        captured(folder, *LIBRARY, NO_BIAS)


def test_code_that_fails_the_lint_never_reaches_the_sandbox(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "capture_model_in_sandbox", lambda *_: pytest.fail("it ran"))
    with pytest.raises(DocumentRefused, match="compiler may not be used"):
        captured(folder, code("layer.training = torch.compiler.is_exporting()"))


def test_library_patches_are_captured_in_a_child_of_ours_and_evidence_says_so(folder: Path, no_sandbox: None) -> None:
    found = captured(folder, *LIBRARY)
    assert found.where.startswith("a child of ours")
    assert found.notes()["captured_in"] == found.where
    assert "as users apply them" in found.bound


def test_without_a_sandbox_drafted_code_is_refused(folder: Path, no_sandbox: None) -> None:
    with pytest.raises(EnvironmentProblem, match="in the sandbox only"):
        captured(folder, *LIBRARY, SAME)
    with pytest.raises(CandidateRefused, match="in the sandbox only"):
        capture_in_child(CONFIG, [SAME], [])


@pytest.mark.sandbox
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_drafted_code_is_released_as_the_documents_that_were_verified(folder: Path, tmp_path: Path) -> None:
    drafts = [PatchDraft(p["pattern"], p["parameters"], Drafter.RULES) for p in LIBRARY]
    drafts.append(PatchDraft(SAME["pattern"], SAME["parameters"], Drafter.LLM, cures=("x",), model="scripted"))
    candidate = Candidate("tiny", "profile-2026-08", "float16", tuple(drafts)).to_dict()
    work = tmp_path / "work"
    work.mkdir()
    spec = base_spec(str(folder), "profile-2026-08", "synthetic", "simulator", work)
    out = run_stage("execute", {**spec, "candidate": candidate})
    assert out["outcome"] == "passed", out["reason"]
    assert out["evidence"]["complete"]
    (patch,) = out["evidence"]["manifest"]["patches"]
    assert (patch["pattern"], patch["drafter"], patch["model"], patch["cures"]) == (
        "document",
        "llm",
        "scripted",
        ["x"],
    )
    verified = [d["digest"] for d in out["evidence"]["capture"]["documents"]]
    assert [document_digest(d) for d in patch["parameters"]["documents"]] == verified
    adapter = {"patches": [patch]}
    captured_again = run_stage("capture", {**spec, "adapter": adapter})
    assert captured_again["outcome"] == "passed"
    shipped = run_stage("execute", {**spec, "adapter": adapter})
    assert shipped["outcome"] == "passed", shipped["reason"]


@pytest.mark.sandbox
@pytest.mark.timeout(600)
def test_the_verdict_on_a_candidate_comes_from_its_documents(folder: Path, tmp_path: Path) -> None:
    drafts = tuple(PatchDraft(p["pattern"], p["parameters"], Drafter.RULES) for p in LIBRARY)
    candidate = Candidate("tiny", "profile-2026-08", "float16", drafts).to_dict()
    work = tmp_path / "work"
    work.mkdir()
    spec = base_spec(str(folder), "profile-2026-08", "synthetic", "simulator", work)
    out = run_stage("execute", {**spec, "candidate": candidate})
    capture = out["evidence"]["capture"]
    assert capture["captured_in"] == documents.CHILD
    assert all(d["calls"] == 2 and len(d["digest"]) == 64 for d in capture["documents"])
    child = json.loads((work / "device_run.spec.json").read_text())
    assert child["patches"] is None
    assert len(json.loads(Path(child["documents"]).read_text())) == len(capture["documents"])
