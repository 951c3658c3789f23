"""The published example: pow(x, 3) is wrong in silence on the default profile, and the gate sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers.activations import NewGELUActivation

from adapters.document import capture_module
from agents.drafters.rules.documents import without_powers
from pipeline.execution.check import base_spec, run_stage

ALBERT = "sentence-transformers/paraphrase-albert-small-v2"
OTHERS: list[dict[str, Any]] = [
    {"pattern": "P56", "parameters": {"dtype": "float16"}},
    {"pattern": "P40", "parameters": {"fill": "finfo_min_half"}},
    {"pattern": "P54", "parameters": {}},
    {"pattern": "P61", "parameters": {}},
    {"pattern": "P63", "parameters": {"multiple": 64, "side": "right"}},
]


def products() -> dict[str, Any]:
    """The patch that replaces the power by products."""
    document = without_powers(capture_module(NewGELUActivation()))
    return {
        "pattern": "P01",
        "parameters": {"module_class": "transformers.activations.NewGELUActivation", "document": document},
    }


def judged(profile: str, patches: list[dict[str, Any]], work: Path) -> dict[str, Any]:
    spec = base_spec(ALBERT, profile, "synthetic", "simulator", work) | {"data_dir": str(work)}
    spec |= {"checkpoint_dir": run_stage("inspect", spec)["checkpoint_dir"]}
    return run_stage("execute", {**spec, "adapter": {"patches": patches}})


@pytest.mark.timeout(400)
def test_the_silent_power_fails_the_gate_and_the_products_pass(tmp_path: Path) -> None:
    wrong = judged("profile-2026-08", OTHERS, tmp_path)
    assert wrong["outcome"] == "failed"
    assert wrong["measurements"]["worst_token_cosine"] < 0.99
    right = judged("profile-2026-08", [*OTHERS, products()], tmp_path)
    assert right["outcome"] == "passed", right["reason"]


@pytest.mark.timeout(400)
def test_where_the_compiler_decomposes_powers_no_patch_is_needed(tmp_path: Path) -> None:
    assert judged("profile-2026-09", OTHERS, tmp_path)["outcome"] == "passed"
