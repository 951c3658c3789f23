"""The drafting figures say of which tasks the cost is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.drafting import Bench
from benchmarks.kept import Kept
from pipeline.bench.model_child import ModelChild
from pipeline.bench.tasks import FormTask, Task, load_tasks


def solved(task: Task, by: str = "", **more: Any) -> dict[str, Any]:
    return {"solved_at": 1, "solved_by": by or task.reference.digest, "cost_ratio": None, **more}


def test_a_structural_draft_costs_what_its_reference_does_only_where_it_is_the_same_set(tmp_path: Path) -> None:
    tasks = load_tasks()
    form = next(task for task in tasks if isinstance(task, FormTask))
    first, second, third, fourth = [task for task in tasks if not isinstance(task, FormTask)][:4]
    kept = Kept(tmp_path / "kept.jsonl", "v")
    answers = [(form, solved(form, cost_ratio=1.0)), (first, solved(first)), (second, solved(second, by="another"))]
    for task, answer in [*answers, (third, solved(third, solved_at=None))]:
        kept.answer(f"rules {task.id}", lambda answer=answer: answer)  # type: ignore[misc]
    bench = Bench(ModelChild(), kept, [form, first, second, third, fourth])
    assert bench.cost() == {"cost": {"measured": 1, "same set": 1, "not known": [second.id]}}
