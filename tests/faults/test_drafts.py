"""Drafts in a running service: real dispatcher and worker, the scripted endpoint over HTTP; all scenarios sandboxed.

A right patch comes after one failed attempt; a hostile endpoint ends with nothing in the queue, within budget and with
its whole conversation; a worker that is killed in the middle of a draft leaves it to another, no call is paid twice.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.endpoint import Running, Script, load_scripts, serve
from benchmarks.installation import Installation
from pipeline.database.unit_of_work import reading
from pipeline.drafting.trajectories import export, summaries
from pipeline.review.models import BudgetEntry, CandidateRow, CandidateState
from pipeline.settings import get_settings
from pipeline.sweeps.models import Checkpoint
from pipeline.work.models import Run

from .work import Work, holds, until

CHILD = Path(__file__).with_name("drafting_child.py")
BUDGET_USD = 1.0
ENDS = {
    "good": "patch",
    "wrong_then_right": "patch",
    "cheating": "limit_reached",
    "rambling": "limit_reached",
    "misuse": "limit_reached",
    "failing": "endpoint_problem",
    "slow": "endpoint_problem",
}
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def drafting(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of this test's installation are those of the drafting child."""
    monkeypatch.setenv("SPYRE_FACTORY_CHILD_MODULE", str(CHILD))
    get_settings.cache_clear()


@pytest.fixture
def made(drafting: None, embedded: Installation) -> Installation:
    """A prepared installation on the embedded broker."""
    return embedded


def point(endpoints: dict[str, Running]) -> None:
    """Tells the drafting child whom each model's drafts ask."""
    found = {model: endpoint.url for model, endpoint in endpoints.items()}
    (get_settings().data_dir / "endpoints.json").write_text(json.dumps(found))


def drafts() -> dict[str, int]:
    """Model to the number of its draft run."""
    with reading() as session:
        rows = session.query(Run).filter_by(stage="draft")
        return {session.get_one(Checkpoint, run.checkpoint_id).model.name: run.id for run in rows}


def conversations(run_id: int) -> list[dict[str, Any]]:
    """The conversations of a run, whole, in the order they began."""
    with reading() as session:
        found = [export(session, row["id"]) for row in summaries(session) if row["run"] == run_id]
    return sorted(found, key=lambda document: document["created_at"])


def answers(run_id: int) -> list[str]:
    """The reservations of the answers that were asked for, in all of a run's conversations."""
    steps = [step for document in conversations(run_id) for step in document["steps"] if step["kind"] == "answer"]
    return [step["reservation"] for step in steps if not step.get("replayed")]


def ledger(run_id: int) -> list[BudgetEntry]:
    with reading() as session:
        return list(session.query(BudgetEntry).filter_by(run_id=run_id))


def candidates() -> dict[int, CandidateRow]:
    """The run that drafted it to the candidate."""
    with reading() as session:
        return {row.draft_run_id: row for row in session.query(CandidateRow) if row.draft_run_id is not None}


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        pytest.param(("wrong_then_right", "misuse"), "scripted", id="two"),
        pytest.param(
            tuple(ENDS), "sandboxed", id="all", marks=[pytest.mark.long, pytest.mark.sandbox, pytest.mark.timeout(600)]
        ),
    ],
)
def test_scenarios_in_a_running_service(names: tuple[str, ...], kind: str, made: Installation) -> None:
    models = {name: f"a{number}/{kind}-{name}" for number, name in enumerate(names)}
    with ExitStack() as stack:
        point({m: stack.enter_context(serve(scripts=load_scripts(scenario=n))) for n, m in models.items()})
        made.start("dispatcher")
        made.start("worker")
        Work(*models.values(), apart=True).wait()
    holds()
    runs, found = drafts(), candidates()
    right = {runs[models[name]] for name in names if ENDS[name] == "patch"}
    assert set(found) == right, "a hostile endpoint leaves nothing in the queue"
    for row in found.values():
        assert (row.state, row.scripted) == (CandidateState.WAITING, True)
    for name in names:
        [document], entries = conversations(runs[models[name]]), ledger(runs[models[name]])
        assert document["outcome"] == ENDS[name], (name, document["reason"])
        assert [document["steps"][0]["kind"], document["steps"][-1]["kind"]] == ["start", "end"], name
        charged = sum(e.reserved_usd if e.settled_usd is None else e.settled_usd for e in entries)
        assert 0 < charged <= BUDGET_USD, name
        asked = answers(runs[models[name]])
        assert len(set(asked)) == len(asked) <= len(entries), name
    [document] = conversations(runs[models["wrong_then_right"]])
    submitted = [step for step in document["steps"] if step.get("tool") == "submit"]
    assert [step["facts"].get("passed", False) for step in submitted] == [False, True], "right after one failed attempt"


def test_a_worker_that_is_killed_while_it_drafts_leaves_the_draft_to_another(made: Installation) -> None:
    """Killed while the second answer is waited for: the first is not asked for again, and each is paid once."""
    model, scripts = "a/scripted-killed", load_scripts(scenario="wrong_then_right")
    with serve(scripts=[with_pause(script) for script in scripts]) as slow:
        point({model: slow})
        made.start("dispatcher")
        worker = made.start("worker", workers="1")
        work = Work(model)
        until(lambda: bool(drafts()) and len(answers(drafts()[model])) == 1)
        worker.kill()
    with serve(scripts=scripts) as quick:
        point({model: quick})
        made.start("worker")
        work.wait()
    holds()
    run_id = drafts()[model]
    asked, entries = answers(run_id), ledger(run_id)
    assert conversations(run_id)[-1]["outcome"] == "patch"
    assert [row.state for row in candidates().values()] == [CandidateState.WAITING]
    assert len(set(asked)) == len(asked) == 3
    assert len(entries) <= 4, "at most the call whose answer was lost is made again"
    assert sum(entry.settled_at is None for entry in entries) == len(entries) - 3


def with_pause(script: Script) -> Script:
    """The script, silent for a minute before its second answer."""
    steps = tuple(replace(step, delay_s=60.0) if number == 1 else step for number, step in enumerate(script.steps))
    return replace(script, steps=steps)
