"""What language models cost: per candidate, per model that then passes, per download; what is unknown is never 0."""

from __future__ import annotations

from typer.testing import CliRunner

from pipeline.cli.main import build_app
from pipeline.database.unit_of_work import database_now, reading, unit_of_work
from pipeline.drafting.costs import cost_report
from pipeline.releases.models import Adapter
from pipeline.review.models import BudgetEntry, CandidateRow, PatchRow
from pipeline.sweeps.models import Checkpoint, CheckpointStatus, Model
from pipeline.work.models import Run


def spend(run_id: int, model: str, *calls: float | None) -> None:
    with unit_of_work() as session:
        for cost in calls:
            now = database_now(session)
            session.add(
                BudgetEntry(
                    day="2026-11-30", purpose=model, run_id=run_id, reserved_usd=0.5, settled_usd=cost, created_at=now
                )
            )


def test_a_call_of_unknown_cost_makes_the_sum_unknown_and_never_smaller(run_id: int) -> None:
    spend(run_id, "m", 0.25, 0.25)
    with reading() as session:
        assert cost_report(session)["cost_usd"] == 0.5
    spend(run_id, "m", None)
    with reading() as session:
        report = cost_report(session)
    assert (report["calls"], report["calls_of_unknown_cost"], report["cost_usd"]) == (3, 1, None)
    assert report["charged_usd"] == 1.0


def test_scripted_calls_are_in_no_figure(run_id: int) -> None:
    spend(run_id, "scripted", 0.0, 0.0)
    with reading() as session:
        report = cost_report(session)
    assert (report["calls"], report["scripted_calls"], report["by_model"]) == (0, 2, {})


def candidate_of(run_id: int, state: str) -> int:
    """A candidate that the run drafted with a language model."""
    with unit_of_work() as session:
        now = database_now(session)
        row = CandidateRow(
            digest="1" * 64, family="f", profile="p", dtype="float16", state=state, data={}, draft_run_id=run_id,
            created_at=now, updated_at=now,
        )  # fmt: skip
        session.add(row)
        session.flush()
        session.add(PatchRow(candidate_id=row.id, position=1, pattern="P01", drafter="llm", exactness="exact", data={}))
        return row.id


def released_and_passing(run_id: int, downloads: int) -> None:
    """The candidate as an adapter with which the run's model passes."""
    candidate = candidate_of(run_id, "released")
    with unit_of_work() as session:
        now = database_now(session)
        adapter = Adapter(
            name="a", version=1, origin="service", family="f", profile="p", digest="2" * 64, manifest={}, predicate={},
            candidate_id=candidate, created_at=now,
        )  # fmt: skip
        session.add(adapter)
        session.flush()
        run = session.get_one(Run, run_id)
        checkpoint = session.get_one(Checkpoint, run.checkpoint_id)
        session.get_one(Model, checkpoint.model_id).downloads = downloads
        session.add(
            CheckpointStatus(
                checkpoint_id=checkpoint.id, profile="p", run_id=run_id, adapter_id=adapter.id, stage="execute",
                outcome="passed", tier="full", environment="e", updated_at=now,
            )
        )  # fmt: skip


def test_the_cost_of_a_candidate_is_that_of_its_draft_and_per_model_unknown_while_none_passes(run_id: int) -> None:
    spend(run_id, "m", 0.25)
    candidate_of(run_id, "waiting")
    with reading() as session:
        [candidate] = cost_report(session)["candidates"]
    assert (candidate["cost_usd"], candidate["calls"], candidate["per_model_usd"]) == (0.25, 1, None)


def test_the_cost_is_shared_by_the_models_that_pass_with_the_adapter_and_by_their_downloads(run_id: int) -> None:
    spend(run_id, "m", 0.25, 0.15)
    released_and_passing(run_id, downloads=400)
    with reading() as session:
        report = cost_report(session)
    [candidate] = report["candidates"]
    assert (candidate["models_passing"], candidate["downloads"]) == (1, 400)
    assert (candidate["per_model_usd"], candidate["per_download_usd"]) == (0.4, 0.001)
    assert (report["per_model_usd"], report["per_download_usd"]) == (0.4, 0.001)
    said = CliRunner().invoke(build_app(), ["drafting", "costs"]).stdout
    assert "1 models pass, 0.400000 USD each, 0.001000 USD per download" in said


def test_one_call_of_unknown_cost_makes_the_cost_per_passing_model_unknown(run_id: int) -> None:
    spend(run_id, "m", 0.25, None)
    released_and_passing(run_id, downloads=400)
    with reading() as session:
        report = cost_report(session)
    assert (report["candidates"][0]["per_model_usd"], report["per_model_usd"], report["per_download_usd"]) == (
        None,
    ) * 3
    assert "unknown each" in CliRunner().invoke(build_app(), ["drafting", "costs"]).stdout
