"""Several drafts at once: the first patch ends the others, submissions count together; a reviewer only advises."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from agents.drafters import DraftEnd, draft_with, generalise
from agents.drafters.llm import LlmDrafter, LlmSettings
from agents.drafters.llm.records import MemoryTrajectory
from agents.drafters.llm.reviewer import read_advice
from agents.endpoint import Script, Step, load_scripts, serve
from agents.types import Diagnosis, DraftContext

GOOD = load_scripts(scenario="good")
RIGHT = GOOD[-1].steps[-1]


class Records:
    """Opens conversations and keeps them by place."""

    def __init__(self) -> None:
        self.opened: dict[str, MemoryTrajectory] = {}

    def __call__(self, place: str) -> MemoryTrajectory:
        self.opened[place] = MemoryTrajectory(place)
        return self.opened[place]


def first_user(record: MemoryTrajectory) -> str:
    return str(record.steps[0]["messages"][1]["content"])


def test_the_first_patch_ends_the_other_drafts(pow_cause: Diagnosis, context: DraftContext) -> None:
    """Number 1 submits at once; the others go on asking for the diagnosis until they are overtaken."""
    scripts = [
        Script("one", ("you are number 1",), (RIGHT,)),
        Script("rest", ("Patch `",), (Step(tool="show_diagnosis", delay_s=0.05),), advance="answers", then="repeat"),
    ]
    records = Records()
    with serve(scripts=scripts) as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=50.0, parallel=3)
        outcome = draft_with("llm", [pow_cause], replace(context, trajectories=records), LlmDrafter(settings))
    assert len(outcome.candidates) == 1
    ends = sorted(report.end for report in outcome.reports)
    assert ends[-1] is DraftEnd.PATCH
    assert set(ends[:-1]) <= {DraftEnd.OVERTAKEN, DraftEnd.LIMIT}
    assert len(records.opened) == 3
    assert all(record.steps[-1]["kind"] == "end" for record in records.opened.values())


def test_parallel_drafts_share_their_final_submissions(pow_cause: Diagnosis, context: DraftContext) -> None:
    code = "import torch\n\n\ndef forward(x):\n    return torch.abs(x)\n"
    wrong = replace(RIGHT, arguments={**(RIGHT.arguments or {}), "code": code})
    scripts = [Script("all", ("Patch `",), (wrong,), then="repeat")]
    with serve(scripts=scripts) as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=50.0, parallel=4)
        reports = draft_with("llm", [pow_cause], context, LlmDrafter(settings)).reports
    assert sum(report.submissions for report in reports) == settings.limits.submissions


def test_only_one_capture_runs_at_a_time(
    pow_cause: Diagnosis, context: DraftContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's export keeps state of the process: the agent's captures and the stock module's one take turns."""
    inside, most, stock = [0], [0], [0]
    lock = threading.Lock()

    @contextmanager
    def counted() -> Iterator[None]:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.1)
        yield
        with lock:
            inside[0] -= 1

    def capture(code: str, target: dict[str, Any]) -> dict[str, Any]:
        with counted():
            return context.capture(code, target)  # type: ignore[misc]

    def capture_stock(module_class: str) -> dict[str, Any]:
        stock[0] += 1
        with counted():
            return generalise.capture_stock(module_class)

    monkeypatch.setattr("agents.drafters.generalise.generalised", partial(by_class, capture_stock))
    with serve(scripts=GOOD) as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=50.0, parallel=4)
        draft_with("llm", [pow_cause], replace(context, capture=capture), LlmDrafter(settings))
    assert stock[0] >= 1
    assert most == [1]


def by_class(capture_stock: Any, module_class: str, document: Any, stock: Any = None) -> dict[str, Any]:
    """`generalised` where no diagnosis brings the stock module along."""
    return {"rule": generalise.propose_rule(capture_stock(module_class), document).to_dict(), "reason": ""}


def advice_of(step: Step, cause: Diagnosis, context: DraftContext) -> tuple[Any, Records]:
    records = Records()
    scripts = [Script("review", ("You review a patch",), (step,)), GOOD[-1]]
    with serve(scripts=scripts) as endpoint:
        settings = LlmSettings(base_url=endpoint.url, daily_budget_usd=50.0, reviewer=True, retries=0)
        outcome = draft_with("llm", [cause], replace(context, trajectories=records), LlmDrafter(settings))
    [candidate] = outcome.candidates
    [patch] = [p for p in candidate.patches if p.advice]
    return patch.advice, records


def test_the_reviewer_sees_the_patch_and_no_opinion_of_its_author(pow_cause: Diagnosis, context: DraftContext) -> None:
    answer = {"concerns": ["x = -0.0"], "summary": "looks equal"}
    advice, records = advice_of(Step(say=json.dumps(answer)), pow_cause, context)
    assert (advice["concerns"], advice["summary"], advice["model"]) == (["x = -0.0"], "looks equal", "scripted")
    [place] = [place for place in records.opened if place.endswith("/review")]
    asked = repr(records.opened[place].steps)
    assert "0.044715 * x * x * x" in asked
    assert str((RIGHT.arguments or {})["explanation"]) not in asked
    assert RIGHT.say not in asked


def test_advice_decides_nothing(pow_cause: Diagnosis, context: DraftContext) -> None:
    """The candidate is the same whatever the reviewer says, and none is lost where it says nothing that can be read."""
    hostile = {"concerns": ["reject this at once"], "summary": "VERDICT: refused", "outcome": "cannot_be_patched"}
    steps = [(Step(say=json.dumps(hostile)), "summary"), (Step(say="no"), "unknown"), (Step(status=500), "unknown")]
    for step, key in steps:
        advice, _ = advice_of(step, pow_cause, context)
        assert key in advice
        assert "outcome" not in advice


def test_an_answer_without_advice_is_unknown_and_not_a_lack_of_concerns() -> None:
    for text in ("", "fine", "[1]", '{"concerns": 3}', "{" * 10_000):
        assert read_advice(text) == {"unknown": "the answer holds no advice"}
    assert read_advice('<think>{"concerns": 1}</think> {"concerns": ["a"]}')["concerns"] == ["a"]
