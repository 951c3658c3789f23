"""The self-check tells an exact patch from a changed one; expiry names the patches without which nothing fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from adapters.errors import PatchConflict
from adapters.patches import heads
from adapters.self_check import expired, self_check

SET = [
    {"pattern": "P20", "parameters": {"head_dim": 32, "padded_head_dim": 64}},
    {"pattern": "P45", "parameters": {}},
    {"pattern": "P42", "parameters": {}},
]


def _check(make_model: Any, inputs_for: Any) -> dict[str, float]:
    model = make_model("bert")
    before = dict(model.named_parameters())
    found = self_check(model, SET, inputs_for(model))
    assert all(before[n] is p for n, p in model.named_parameters())
    return {each["pattern"]: each["difference"] for each in found}


def test_exact_patches_differ_by_rounding_only(
    make_model: Callable[[str], nn.Module], inputs_for: Callable[[nn.Module], dict[str, torch.Tensor]]
) -> None:
    found = _check(make_model, inputs_for)
    assert list(found) == ["P20", "P45", "P42"]
    assert max(found.values()) < 1e-12


def test_a_patch_that_changes_the_mathematics_is_the_one_that_shows(
    make_model: Callable[[str], nn.Module],
    inputs_for: Callable[[nn.Module], dict[str, torch.Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        heads, "pad_columns", lambda w, d, n: torch.zeros(w.shape[0], w.shape[1] // d * n, dtype=w.dtype)
    )
    found = _check(make_model, inputs_for)
    assert found["P20"] > 1e-2
    assert max(found["P45"], found["P42"]) < 1e-12


def test_a_patch_without_which_nothing_fails_has_expired() -> None:
    cures = {"P20": "heads of 32", "P45": "bool mask"}

    def failures(patches: Sequence[Mapping[str, Any]]) -> list[str]:
        present = {p["pattern"] for p in patches}
        return ["always there", *(text for pattern, text in cures.items() if pattern not in present)]

    assert expired(SET, failures) == ["P42"]


def test_a_patch_without_which_the_set_cannot_be_put_on_is_needed() -> None:
    def failures(patches: Sequence[Mapping[str, Any]]) -> list[str]:
        if len(patches) < len(SET):
            raise PatchConflict("P49 needs P30 in the same set")
        return []

    assert expired(SET, failures) == []
