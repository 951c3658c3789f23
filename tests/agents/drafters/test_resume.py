"""A draft whose process was killed goes on: what was paid and saved is not asked for again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.drafters import draft_with
from agents.drafters.llm import LlmDrafter, LlmSettings, MemoryLedger
from agents.drafters.llm.records import MemoryTrajectory
from agents.endpoint import serve
from agents.types import Diagnosis, DraftContext


def drafted(cause: Diagnosis, context: DraftContext, earlier: tuple[dict[str, Any], ...]) -> Any:
    record, ledger = MemoryTrajectory("p", earlier), MemoryLedger(1.0)
    with serve() as endpoint:
        drafter = LlmDrafter(LlmSettings(base_url=endpoint.url, model="scripted", daily_budget_usd=1.0))
        given = replace(context, trajectories=lambda place: record, budget=ledger)
        outcome = draft_with("llm", [cause], given, drafter)
    return outcome, record.steps, ledger


@pytest.mark.parametrize("cut", range(1, 8))
def test_after_each_step_the_draft_goes_on_and_pays_only_for_what_was_not_saved(
    cut: int, pow_cause: Diagnosis, context: DraftContext
) -> None:
    whole, steps, ledger = drafted(pow_cause, context, ())
    assert len(ledger.entries) == 3
    earlier = tuple(steps[:cut])
    again, more, second = drafted(pow_cause, context, earlier)
    saved = sum(step["kind"] == "answer" for step in earlier)
    assert len(second.entries) == 3 - saved
    assert [c.digest for c in again.candidates] == [c.digest for c in whole.candidates]
    assert [s["kind"] for s in more] == ["resumed", *["answer", "tool"] * 3, "end"]
    assert [bool(s.get("replayed")) for s in more if s["kind"] == "answer"] == [n < saved for n in range(3)]


def test_a_second_kill_uses_the_conversation_that_came_furthest(pow_cause: Diagnosis, context: DraftContext) -> None:
    _, steps, _ = drafted(pow_cause, context, ())
    _, again, _ = drafted(pow_cause, context, tuple(steps[:6]))
    _, _, ledger = drafted(pow_cause, context, (*steps[:6], *again[:2]))
    assert len(ledger.entries) == 3 - sum(step["kind"] == "answer" for step in steps[:6])


def test_a_conversation_that_differs_is_not_continued_with_old_answers(
    pow_cause: Diagnosis, context: DraftContext
) -> None:
    _, steps, _ = drafted(pow_cause, context, ())
    other = replace(context, rejected={"0" * 64: "a new reason"})
    _, more, ledger = drafted(pow_cause, other, tuple(steps[:4]))
    assert len(ledger.entries) == 3
    assert not any(step.get("replayed") for step in more)
