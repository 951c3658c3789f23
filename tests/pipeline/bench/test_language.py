"""The `llm` drafter on the bench over real HTTP: tasks solved and given up, what was used, no score of the script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor

from agents.drafters.llm import LlmDrafter, LlmSettings
from agents.endpoint import Script, serve
from agents.endpoint.script import Step
from pipeline.bench.language import LanguageBench, measurable
from pipeline.bench.run import run_bench
from pipeline.bench.score import report, scripted
from pipeline.bench.tasks import captured, load_tasks

CODE = {"code": "def forward(x):\n    return x * x * x\n", "explanation": "three factors", "exactness": "exact"}
ANSWER = Script("cube", ("bench.cube",), (Step("submit", CODE),))


def cube(x: Tensor) -> Tensor:
    return x * x * x


@pytest.fixture
def drafter() -> Iterator[LlmDrafter]:
    with serve(scripts=(ANSWER,)) as endpoint:
        yield LlmDrafter(LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0))


def test_a_task_is_solved_by_what_the_endpoint_answers_and_another_is_given_up(drafter: LlmDrafter) -> None:
    forms = {task.form.name: task for task in reversed(measurable(load_tasks()))}
    tasks = [forms["cube"], forms["erf"]]
    language = LanguageBench(drafter, 1.0, lambda code, target: captured(cube))
    results = run_bench(language, tasks, k=1, spent=language.spent)
    assert [(r.solved_at, r.end) for r in results] == [(1, "patch"), (None, "cannot_be_patched")]
    assert all(r.spent.turns and r.spent.tokens for r in results)
    assert results[0].spent.cost_usd == 0.0
    found: dict[str, Any] = scripted(report("llm", "scripted", "public", 0, "d" * 64, results, 1))
    assert (found["overall"], found["loop"]["ends"]) == ("not measured", {"patch": 1, "cannot_be_patched": 1})
    assert "solved" not in str(found)
