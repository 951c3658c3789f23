"""`diagnose` of something that cannot be diagnosed: the right kind, and a sentence that says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.diagnosis.answers import advice_for
from pipeline.errors import CheckpointProblem
from pipeline.execution import check, child, diagnosis_report
from tests.pipeline.execution.test_bad_checkpoints import BERT, CASES, broken_config


def no_transformer(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "resnet", "hidden_sizes": [8], "depths": [1]}))


def broken_tokenizer(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(BERT))
    (folder / "modules.json").write_text('[{"idx": 0, "path": "", "type"')
    (folder / "tokenizer.json").write_text("{")


MORE: dict[str, tuple[Callable[[Path], None], str]] = {
    **CASES,
    "no transformer": (no_transformer, "unknown_architecture"),
    "broken tokenizer": (broken_tokenizer, "malformed"),
}


def in_this_process(stage: str, spec: dict[str, Any]) -> dict[str, Any]:
    out = child.run_stage(stage, spec)
    if out["outcome"] == "failed":
        raise CheckpointProblem(out["failures"][0]["kind"], out["reason"])
    return out


@pytest.mark.parametrize("case", MORE)
def test_a_checkpoint_that_cannot_be_diagnosed_has_its_kind_and_what_to_do(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, kind = MORE[case]
    make(tmp_path)
    monkeypatch.setattr(diagnosis_report, "run_stage", in_this_process)
    with pytest.raises(CheckpointProblem) as caught:
        diagnosis_report.diagnose_model(str(tmp_path), profile="profile-ideal", weights="hub", reproducers=False)
    assert caught.value.kind == kind
    said = str(caught.value)
    assert "\n" not in said
    assert "Traceback" not in said
    assert advice_for(caught.value.kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("timeout", "did not end within 540 s"), ("crashed", "ended by SIGSEGV"), ("memory_limit", "MB")],
)
def test_a_child_that_hangs_crashes_or_overruns_is_a_problem_of_its_kind(
    kind: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "inspect": {"description": {"norm": "post"}, "checkpoint_dir": "d", "weights": "real", "reason": ""},
        "diagnose": {"outcome": "failed", "reason": reason, "failures": [{"kind": kind}]},
    }
    monkeypatch.setattr(diagnosis_report, "run_stage", lambda stage, spec: answers[stage])
    with pytest.raises(CheckpointProblem, match=reason) as caught:
        diagnosis_report.diagnose_model("m", profile="profile-ideal")
    assert caught.value.kind == kind


def test_the_stage_s_own_child_says_what_broke_it(tmp_path: Path) -> None:
    broken_config(tmp_path)
    with pytest.raises(CheckpointProblem) as caught:
        check.run_stage("inspect", check.base_spec(str(tmp_path), "profile-ideal", "auto", "simulator", tmp_path))
    assert caught.value.kind == "malformed"
