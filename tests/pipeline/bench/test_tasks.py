"""Every public form: the reference passes, near misses and the stock form fail, the rules solve it."""

from __future__ import annotations

import json

import pytest

from agents.drafters.rules.patterns import PATTERNS
from pipeline.bench.causes import WITHOUT
from pipeline.bench.judge import judge_form
from pipeline.bench.run import by_rules, run_bench
from pipeline.bench.score import interval, not_measured
from pipeline.bench.structural import MODEL_TASKS, SUBJECTS, ModelTask, task_called
from pipeline.bench.tasks import FormTask, load_tasks, patterns_of

SEED = 7
TASKS = load_tasks()
FIRST = {task.form.name: task for task in reversed(TASKS) if isinstance(task, FormTask)}


@pytest.mark.parametrize("task", FIRST.values(), ids=FIRST)
def test_the_reference_passes_and_near_misses_and_echo_fail(task: FormTask) -> None:
    right = judge_form(task, task.reference, SEED)
    assert right.accepted, right.reason
    assert len(task.near_misses) >= 3
    wrong = [judge_form(task, candidate, SEED) for candidate in (*task.near_misses, task.echo)]
    assert not any(found.accepted for found in wrong)


@pytest.mark.parametrize("name", ["gelu_new", "erf", "minus half power", "softplus", "relu6"])
def test_the_rules_solve_a_form_at_the_first_attempt(name: str) -> None:
    [found] = run_bench(by_rules, [FIRST[name]], k=1)
    assert found.solved_at == 1, found.reason
    assert found.proved


def test_a_hidden_pattern_is_not_used() -> None:
    [found] = run_bench(by_rules, [FIRST["cube"]], frozenset({"P01"}), k=1)
    assert (found.solved_at, found.reason) == (None, "no candidate")


def test_nobody_and_echo_score_nothing() -> None:
    from pipeline.bench.run import by_echo, by_nobody

    for draft in (by_nobody, by_echo):
        assert [r.solved_at for r in run_bench(draft, [FIRST["cube"]], k=2)] == [None]


def test_there_are_sixty_tasks_with_ids_of_their_own() -> None:
    assert len(TASKS) >= 60
    assert len({task.id for task in TASKS}) == len(TASKS)
    assert set(PATTERNS) - set(patterns_of(TASKS)) <= set(WITHOUT), "every other pattern of the rules has a task"


def test_fresh_tasks_depend_on_the_seed_alone() -> None:
    ids = [[t.documents for t in load_tasks("fresh", seed)] for seed in (1, 1, 2)]
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]


def test_fresh_structural_tasks_have_sizes_of_their_own_and_the_rules_draft_a_cure() -> None:
    tasks = [task for task in load_tasks("fresh", 3) if isinstance(task, ModelTask)]
    assert len({task.pattern for task in tasks}) == len(tasks) == 12
    assert all(task_called(task.id).cause == task.cause for task in tasks)
    sizes = {json.dumps(SUBJECTS[task.subject]) for task in tasks}
    assert sizes.isdisjoint(json.dumps(config) for config in SUBJECTS.values())
    for task in tasks:
        [candidate] = by_rules(task, task.diagnoses, task.context)
        assert task.named & {patch.pattern for patch in candidate.patches}, task.id


def test_heads_of_a_fresh_model_are_padded_to_whole_sticks_from_its_own_size() -> None:
    [task] = [t for t in MODEL_TASKS if t.pattern == "P20" and t.subject == "bert"]
    widths = set()
    for seed in range(8):
        config = SUBJECTS[f"bert~{seed}"]
        fresh = task.cause.resized(seed, config)
        assert fresh is not None
        head_dim = config["hidden_size"] // config["num_attention_heads"]
        assert fresh.patches == (("P20", {"head_dim": head_dim, "padded_head_dim": 64 if head_dim == 32 else 128}),)
        widths.add(config["hidden_size"])
    assert len(widths) > 1


def test_a_structural_cause_names_the_pattern_asked_for_and_the_rules_draft_a_cure() -> None:
    for task in MODEL_TASKS:
        assert task.pattern in {use.pattern for d in task.diagnoses for use in d.patterns}, task.id
        [candidate] = by_rules(task, task.diagnoses, task.context)
        assert task.named & {patch.pattern for patch in candidate.patches}, task.id


def test_the_interval_is_that_of_wilson() -> None:
    low, high = interval(9, 10)
    assert (round(low, 4), round(high, 4)) == (0.5958, 0.9821)
    assert interval(0, 5)[0] == 0.0
    with pytest.raises(ValueError, match="no tasks"):
        interval(0, 0)


def test_what_could_not_be_asked_is_not_measured_and_no_zero() -> None:
    found = not_measured("llm", "public", "no endpoint is set")
    assert found["overall"] == "not measured"
