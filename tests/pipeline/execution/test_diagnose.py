"""The diagnose stage: what of the child's answer is stored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.execution import diagnose as stage
from pipeline.execution.subject import Subject


@pytest.mark.parametrize(
    ("unsearched", "reason"),
    [
        ([], "0 causes"),
        (
            [{"input": "whole", "block": "h.0", "reason": "no isinf"}],
            "0 causes; silent causes were not looked for where the device refuses: from h.0 on (input whole): no isinf",
        ),
    ],
)
def test_a_search_that_the_device_refuses_is_stored_and_told_beside_the_causes(
    unsearched: list[dict[str, str]], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: dict[str, Any] = {"diagnoses": [], "predicted": [], "fingerprint": "f", "curves": {"whole": []}}
    monkeypatch.setattr(stage, "prepare", lambda _: SimpleNamespace(folder=tmp_path, depth=""))
    monkeypatch.setattr(stage, "call_device_child", lambda *_: {**answer, "unsearched": unsearched})
    out = stage.diagnose(Subject("a/x", tmp_path, "profile-2026-08", tmp_path))
    assert out["evidence"] == {"curves": {"whole": []}, "unsearched": unsearched}
    assert out["reason"] == reason
