"""Each model of two sweeps has the change its outcomes make."""

from __future__ import annotations

from typing import Any, cast

import pytest
from sqlalchemy.orm import Session

from pipeline.sweeps import comparison


def report(number: int, **outcomes: str) -> dict[str, Any]:
    models = [
        {"model": name, "downloads": 10 - rank, "outcome": outcome, "reason": f"because {number}"}
        for rank, (name, outcome) in enumerate(outcomes.items())
    ]
    return {"sweep": number, "profile": "profile-2026-08", "state": "done", "models": models}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    first = report(1, broke="passed", same="failed", mended="failed", gone="passed", fine="passed", ours="infra")
    second = report(2, broke="failed", same="failed", mended="passed", came="failed", fine="passed", ours="failed")
    monkeypatch.setattr(comparison, "sweep_report", lambda _session, number: {1: first, 2: second}[number])
    return comparison.compare_sweeps(cast(Session, None), 1, 2)


def test_every_outcome_pair_has_its_change(compared: dict[str, Any]) -> None:
    assert {row["model"]: row["change"] for row in compared["models"]} == {
        "broke": "new",
        "same": "persisting",
        "mended": "fixed",
        "gone": "left",
        "came": "entered",
        "ours": "undecided",
    }
    assert compared["counts"] == dict.fromkeys(comparison.CHANGES, 1)


def test_what_passes_in_both_is_only_counted_and_the_newer_reason_is_given(compared: dict[str, Any]) -> None:
    assert compared["passing_in_both"] == 1
    reasons = {row["model"]: row["reason"] for row in compared["models"]}
    assert (reasons["gone"], reasons["same"]) == ("because 1", "because 2")
