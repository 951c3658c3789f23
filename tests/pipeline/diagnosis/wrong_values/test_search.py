"""The search names each silent defect, its operation and condition by values alone, and nothing on an ideal device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SDPA = "aten.scaled_dot_product_attention.default"
BORDER = ("block", "border")
COMMON = {(SDPA, "layout"), (SDPA, "length"), BORDER}
FOUND = {
    "profile-2026-08": COMMON | {("aten.pow.Tensor_Scalar", "value")},
    "profile-2026-09": COMMON,
    "profile-ideal": set(),
}


def searched(profile: str) -> dict[str, Any]:
    answer: dict[str, Any] = printed("search_tiny.py", profile)
    return answer


def printed(script: str, *arguments: str) -> Any:
    path = Path(__file__).with_name(script)
    done = subprocess.run([sys.executable, str(path), *arguments], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("profile", FOUND)
def test_the_silent_causes_of_a_profile_are_found(profile: str) -> None:
    answer = searched(profile)
    assert answer["unsearched"] == []
    assert {(op, cause) for op, cause, *_ in answer["causes"]} == FOUND[profile]
    for op, _, source, module, layers in answer["causes"]:
        assert source.split(":")[0] in {"modeling_bert.py", "activations.py"}, op
        assert module.startswith("encoder.layer.*")
        assert layers == (1 if op == "block" else 2), op
    curve = answer["curves"]["whole"]
    assert [point["block"] for point in curve] == ["encoder.layer.0", "encoder.layer.1"]
    if not FOUND[profile]:
        assert all(point["own"] < point["own_explained"] < 0.01 for point in curve)


def test_attention_that_is_wrong_does_not_hide_a_norm_that_is_wrong_only_fused() -> None:
    causes = {(op, module.split(".")[-1]): (cause, uses) for op, module, cause, uses in printed("search_heads.py")}
    assert causes[SDPA, "self_attn"] == ("layout", ["P55", "P42"])
    cause, uses = causes["aten.mul.Tensor", "q_norm"]
    assert (cause, uses[0]) == ("fused", "P60")
