"""`spyre-factory diagnose`: what it prints, and where its scripts go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.diagnose import as_text, write_pictures, write_scripts
from pipeline.errors import CheckpointProblem
from pipeline.execution import diagnosis_report
from pipeline.execution.diagnosis_report import next_step, outcome_of, shown


def diagnosis(**more: Any) -> dict[str, Any]:
    failure = {
        "kind": "wrong_values", "op": "aten.gelu.default", "source": "modeling_x.py:7", "module": "layers.*.act",
        "place": "block", "count": 24, "layers": 12, "shapes": [[2, 64, 64]], "dtypes": ["float16"],
        "dtype_run": "float16", "message": "right at 64", "scalars": ["size"],
    }  # fmt: skip
    use = {"pattern": "P01", "parameters": {}}
    evidence = {"error": 0.3, "reproducer": {"script": "print(1)\n"}}
    return {"failure": failure, "patterns": [use], "evidence": evidence, "no_patch": None, **more}


def test_twelve_identical_layers_are_one_cause_with_its_condition_and_patterns() -> None:
    cause = shown(diagnosis())
    assert (cause["condition"], cause["layers"], cause["count"]) == ("size", 12, 24)
    text = as_text({"model": "m", "weights": "real", "profile": "p", "causes": [cause], "unsearched": [], "next": "do"})
    assert "m (real weights) on simulated Spyre, p: 1 causes" in text
    assert "wrong_values aten.gelu.default (size)  modeling_x.py:7  layers.*.act  24 times in 12 layers" in text
    assert "apply P01" in text


def test_a_refusal_has_no_condition_of_its_own() -> None:
    refused = diagnosis()
    refused["failure"] |= {"kind": "layout", "scalars": [3]}
    assert shown(refused)["condition"] is None


def test_scripts_are_numbered_and_named_in_their_causes(tmp_path: Path) -> None:
    causes = [shown(diagnosis()), shown(diagnosis()), shown(diagnosis(evidence={}))]
    causes[0]["reproducer"] = {"script": None, "reason": "not by itself"}
    causes.append(shown(diagnosis()))
    write_scripts(causes, tmp_path / "out.py")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out-2.py", "out.py"]
    assert [c["reproducer"] and c["reproducer"].get("file") for c in causes] == [
        None, str(tmp_path / "out.py"), None, str(tmp_path / "out-2.py"),
    ]  # fmt: skip
    assert "script: none: not by itself" in as_text(
        {"model": "m", "weights": "real", "profile": "p", "causes": causes, "unsearched": [], "next": ""}
    )


def test_pictures_are_the_curve_and_a_region_per_cause_that_has_one(tmp_path: Path) -> None:
    row = {"name": "v0", "op": "aten.gelu.default", "source": "modeling_x.py:7", "reads": ["x0"], "wrong": True}
    causes = [shown(diagnosis()), shown(diagnosis(evidence={"region": [row]}))]
    point = {"block": "layers.0", "total": 0.3, "total_ideal": 0.01}
    write_pictures({"causes": causes, "curves": {"whole": [point]}}, tmp_path / "out.svg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out-1.svg", "out.svg"]
    assert "aten.gelu.default  modeling_x.py:7  (wrong)" in (tmp_path / "out-1.svg").read_text()
    assert "Error per layer" in (tmp_path / "out.svg").read_text()


def test_the_next_step_tells_a_cause_without_a_pattern() -> None:
    assert next_step([], "", []) == "No patch is needed."
    assert "P01" in next_step([shown(diagnosis())], "", [])
    assert "No pattern of the library removes 1 of the causes" in next_step([shown(diagnosis(patterns=[]))], "", [])


def test_a_search_that_the_device_refuses_is_not_an_answer_without_causes() -> None:
    refused = [{"input": "whole", "block": "layers.1", "reason": "does not support: isinf"}]
    assert [outcome_of([], said) for said in ([], refused)] == ["passed", "unknown"]
    assert outcome_of([shown(diagnosis())], refused) == "failed"
    assert next_step([], "", refused) == "Whether a patch is needed is not known."
    text = as_text({"model": "m", "weights": "real", "profile": "p", "causes": [], "unsearched": refused, "next": ""})
    assert "silent causes were not looked for where the device refuses: from layers.1 on (input whole)" in text


def test_a_model_that_crashes_its_child_is_a_problem_of_its_kind_and_never_passed(monkeypatch: Any) -> None:
    answers = {
        "inspect": {"description": {"norm": "post"}, "checkpoint_dir": "d", "weights": "real", "reason": ""},
        "diagnose": {"outcome": "failed", "reason": "the child died of SIGSEGV", "failures": [{"kind": "crashed"}]},
    }
    monkeypatch.setattr(diagnosis_report, "run_stage", lambda stage, spec: answers[stage])
    with pytest.raises(CheckpointProblem, match=r"SIGSEGV\. its process ended") as caught:
        diagnosis_report.diagnose_model("m", profile="profile-ideal")
    assert caught.value.kind == "crashed"
