"""The `llm` drafter on the bench over real HTTP: tasks solved and given up, what was used, no score of the script.

A structural task is asked with its cures hidden, and code for the model is judged in the sandbox and by the report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from agents.drafters.llm import LlmDrafter, LlmSettings
from agents.endpoint import Script, serve
from agents.endpoint.script import Step
from pipeline.bench.device import documents_refused
from pipeline.bench.language import LanguageBench, hidden_for, measurable
from pipeline.bench.model_child import ModelChild
from pipeline.bench.run import run_bench
from pipeline.bench.score import report, scripted
from pipeline.bench.structural import MODEL_TASKS
from pipeline.bench.tasks import FormTask, captured, load_tasks

CODE = {"code": "def forward(x):\n    return x * x * x\n", "explanation": "three factors", "exactness": "exact"}
ANSWER = Script("cube", ("bench.cube",), (Step("submit", CODE),))


def cube(x: Tensor) -> Tensor:
    return x * x * x


@pytest.fixture
def drafter() -> Iterator[LlmDrafter]:
    with serve(scripts=(ANSWER,)) as endpoint:
        yield LlmDrafter(LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0))


def test_a_task_is_solved_by_what_the_endpoint_answers_and_another_is_given_up(drafter: LlmDrafter) -> None:
    forms = {task.form.name: task for task in reversed(load_tasks()) if isinstance(task, FormTask)}
    tasks = [forms["cube"], forms["erf"]]
    language = LanguageBench(drafter, 1.0, ModelChild(), lambda code, target: captured(cube))
    results = run_bench(language, tasks, k=1, spent=language.spent)
    assert [(r.solved_at, r.end) for r in results] == [(1, "patch"), (None, "cannot_be_patched")]
    assert all(r.spent.turns and r.spent.tokens for r in results)
    assert results[0].spent.cost_usd == 0.0
    found: dict[str, Any] = scripted(report("llm", "scripted", "public", 0, "d" * 64, results, 1))
    assert (found["overall"], found["loop"]["ends"]) == ("not measured", {"patch": 1, "cannot_be_patched": 1})
    assert "solved" not in str(found)


NORMS = """\
import torch

def apply(model):
    def written(norm):
        def forward(x):
            apart = x - x.mean(-1, keepdim=True)
            spread = (apart * apart).mean(-1, keepdim=True)
            return apart * torch.rsqrt(spread + norm.eps) * norm.weight + norm.bias
        return forward

    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.forward = written(module)
"""
NOTHING = "def apply(model):\n    pass\n"
BERT = "transformers.models.bert.modeling_bert.BertModel"


def submits(*codes: str) -> tuple[Script, ...]:
    said = {"explanation": "two passes", "exactness": "exact"}
    return (Script("norms", (BERT,), tuple(Step("submit", {"code": code, **said}) for code in codes)),)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.sandbox
def test_code_for_a_model_is_judged_and_what_leaves_the_cause_is_refused_by_the_device() -> None:
    task = next(t for t in MODEL_TASKS if t.id.startswith("P11/bert/"))
    assert task in measurable(load_tasks())
    child = ModelChild()
    with serve(scripts=submits(NOTHING, NORMS)) as endpoint:
        model = LlmDrafter(LlmSettings(base_url=endpoint.url, daily_budget_usd=1.0))
        language = LanguageBench(model, 1.0, child)
        [found] = run_bench(language, [task], k=1, spent=language.spent, child=child)
    assert (found.solved_at, found.end, found.reason) == (1, "patch", "")
    assert model.reports[0].submissions == 2, "the first leaves the norm as it was"
    messages = [m for record in language.trajectories for step in record.steps for m in step["messages"]]
    assert messages
    assert "P11" not in str(messages), "what is hidden is told nowhere"


def test_every_pattern_that_could_cure_a_cause_is_hidden_and_causes_without_a_report_are_not_asked() -> None:
    asked = measurable(load_tasks())
    structural = [task for task in asked if not isinstance(task, FormTask)]
    assert len(structural) >= 20
    for task in structural:
        assert task.cause.shown
        assert hidden_for(task) >= {use.pattern for d in task.diagnoses for use in d.patterns}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_documents_of_the_unchanged_model_show_every_cause_that_is_asked(tmp_path: Path) -> None:
    """Otherwise code that does nothing would solve the task."""
    out = tmp_path / "documents.json"
    environ = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    script = Path(__file__).with_name("stock_documents.py")
    subprocess.run([sys.executable, str(script), str(out)], env=environ, check=True)
    documents = json.loads(out.read_text())
    asked = [task for task in measurable(load_tasks()) if not isinstance(task, FormTask)]
    silent = [task.id for task in asked if not documents_refused(task, documents[task.subject])]
    assert silent == []
