"""A sweep takes every model through its stages; run again with nothing changed it executes no model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.errors import BadInput
from pipeline.settings import Settings
from pipeline.sweeps import repository
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.errors import EmptyCatalogue, UnknownModel
from pipeline.sweeps.models import CatalogueSnapshot, Sweep
from pipeline.sweeps.schemas import SweepOptions, checked
from pipeline.sweeps.service import close_finished, is_finished, resume_sweep, sweep_report
from pipeline.work.models import Run

ALL = ("a/real-one", "a/stock-two", "a/remote-three", "a/crash-four")
Drain = Callable[[], list[int]]
Start = Callable[..., int]


def calls(settings: Settings) -> list[str]:
    log = settings.data_dir / "calls.log"
    return [line.rsplit(" ", 1)[0] for line in log.read_text().splitlines()] if log.exists() else []


def report_of(sweep_id: int) -> dict:
    with reading() as session:
        return sweep_report(session, sweep_id)


def by_name(report: dict) -> dict[str, dict]:
    return {row["model"]: row for row in report["models"]}


def test_every_model_gets_a_row_with_an_outcome_and_a_reason(database: str, sweep_of: Start, drain: Drain) -> None:
    sweep_id = sweep_of(*ALL)
    drain()
    rows = by_name(report_of(sweep_id))
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "a/real-one": "failed",
        "a/stock-two": "passed",
        "a/remote-three": "failed",
        "a/crash-four": "failed",
    }
    assert rows["a/remote-three"]["kind"] == "remote_code"
    assert rows["a/crash-four"]["kind"] == "crashed"
    assert all(row["reason"] for row in rows.values() if row["outcome"] == "failed")
    keys = {"model", "rank", "downloads", "fingerprint", "outcome", "reason", "adapter", "weights", "tier", "depth"}
    assert all(keys <= set(row) for row in rows.values())
    json.dumps(report_of(sweep_id))


def test_a_crash_costs_its_own_row_only(database: str, sweep_of: Start, drain: Drain) -> None:
    sweep_id = sweep_of("a/crash-one", "a/stock-two")
    drain()
    rows = by_name(report_of(sweep_id))
    assert (rows["a/crash-one"]["kind"], rows["a/stock-two"]["outcome"]) == ("crashed", "passed")


def test_a_second_sweep_executes_no_model(database: str, settings: Settings, sweep_of: Start, drain: Drain) -> None:
    first = sweep_of(*ALL)
    drain()
    executed = report_of(first)["executed"]
    before = calls(settings)
    second = sweep_of(*ALL)
    assert drain() == []
    assert calls(settings) == before
    again = report_of(second)
    assert (executed, again["executed"]) == (2, 0)
    assert by_name(again) == by_name(report_of(first))
    assert again["funnel"] == report_of(first)["funnel"]
    assert again["state"] == "done"


def test_a_changed_environment_executes_again(
    database: str, sweep_of: Start, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_of("a/stock-one")
    drain()
    monkeypatch.setattr("pipeline.sweeps.service.environment_digest", lambda _profile: "e" * 64)
    second = sweep_of("a/stock-one")
    drain()
    assert report_of(second)["executed"] == 1


@pytest.mark.parametrize("how", [{"weights": "synthetic"}, {"profile": "profile-2026-04"}, {"tier": "full"}])
def test_other_options_are_other_work(
    how: dict[str, str], database: str, entry: Callable, sweep_of: Start, drain: Drain
) -> None:
    from pipeline.sweeps.service import start_sweep

    sweep_of("a/stock-one")
    drain()
    with unit_of_work() as session:
        options = SweepOptions(**{"profile": "profile-2026-08", **how})  # type: ignore[arg-type]
        second = start_sweep(session, "test", [entry("a/stock-one")], options).id
    drain()
    assert report_of(second)["executed"] == 1


def test_a_capability_is_computed_once_per_graph(
    database: str, settings: Settings, entry: Callable, drain: Drain
) -> None:
    from pipeline.sweeps.service import start_sweep

    config = entry("a/stock-one").config
    twins = [entry("a/stock-one", 1), entry("a/stock-two", 2, config=config)]
    with unit_of_work() as session:
        sweep_id = start_sweep(session, "twins", twins, SweepOptions("profile-2026-08")).id
    drain()
    assert sum(line.startswith("capture") for line in calls(settings)) == 1
    assert sum(line.startswith("execute") for line in calls(settings)) == 2
    assert {row["fingerprint"] for row in report_of(sweep_id)["models"]} != {None}


def test_a_model_that_kills_its_workers_ends_as_crashed_with_a_status(database: str, sweep_of: Start) -> None:
    from pipeline.work import flow
    from pipeline.work import repository as work

    sweep_id = sweep_of("a/one")
    with unit_of_work() as session:
        for _ in range(work.MAX_DELIVERIES):
            assert work.claim_next(session, "w", -1.0) is not None
            flow.recover(session)
        model = repository.get_model(session, "a/one")
        assert [status.kind for status in repository.statuses_of_model(session, model.id)] == ["crashed"]
    assert report_of(sweep_id)["models"][0]["kind"] == "crashed"


def test_texts_of_any_length_and_content_are_stored(
    database: str, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.work.results import result_from_out
    from pipeline.work.worker import work_on

    long = "x" * 10_000 + "\0"
    failure = {"kind": "layout", "op": long, "source": long, "module": long, "message": long}
    out = {"outcome": "failed", "reason": f"\0{long}", "failures": [failure]}
    sweep_of("a/one")
    monkeypatch.setattr("pipeline.work.worker._run", lambda *_: (result_from_out(out), {}))
    assert work_on(1)
    with reading() as session:
        run = session.get_one(Run, 1)
        assert (run.outcome, run.failures[0].kind) == ("failed", "layout")
        assert run.failures[0].op.endswith("cut)")


def test_a_result_that_cannot_be_stored_is_our_fault(
    database: str, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.work.results import result_from_out
    from pipeline.work.worker import work_on

    sweep_of("a/one")
    broken = result_from_out({"outcome": "passed", "diagnoses": [{"no": "failure"}]})
    monkeypatch.setattr("pipeline.work.worker._run", lambda *_: (broken, {}))
    assert work_on(1)
    with reading() as session:
        run = session.get_one(Run, 1)
        assert (run.state, run.attempts) == ("queued", 1)
        assert "could not be stored" in run.reason


def test_what_ran_while_the_sweep_waited_counts_as_executed(database: str, sweep_of: Start, drain: Drain) -> None:
    sweep_of("a/stock-one")
    second = sweep_of("a/stock-one")
    drain()
    assert report_of(second)["executed"] == 1
    assert report_of(sweep_of("a/stock-one"))["executed"] == 0


def test_inspection_finds_the_folder_and_later_stages_get_it(
    database: str, sweep_of: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.settings import get_settings
    from pipeline.work import worker
    from pipeline.work.results import result_from_out
    from pipeline.work.specs import job_of

    sweep_of("a/stock-one")
    with reading() as session:
        job = job_of(session, 1, get_settings())
    assert job.local_path is None
    found = result_from_out({"outcome": "passed", "checkpoint_dir": "/found/here"})
    monkeypatch.setattr(worker, "_run", lambda *_: (found, {}))
    assert worker.work_on(1)
    with reading() as session:
        job = job_of(session, 2, get_settings())
    assert job.local_path == "/found/here"


@pytest.mark.parametrize(("said", "stored"), [("full", None), ("2 of 36", "2 of 36"), (None, None)])
def test_only_what_falls_short_of_full_depth_is_stored(said: str | None, stored: str | None) -> None:
    from pipeline.work.results import result_from_out

    assert result_from_out({"outcome": "passed", "depth": said}).depth == stored


def test_an_out_document_without_a_legal_outcome_is_our_fault() -> None:
    from pipeline.work.results import result_from_out

    assert result_from_out({"outcome": "great"}).outcome == "infra"
    assert result_from_out({}).outcome == "infra"


def test_dropped_models_keep_their_row_and_reason(database: str, entry: Callable, drain: Drain) -> None:
    from pipeline.sweeps.service import start_sweep

    dropped = entry("a/gone", 2, config=None, dropped_kind="gated", dropped_reason="It is gated.")
    with unit_of_work() as session:
        sweep_id = start_sweep(session, "test", [entry("a/stock-one"), dropped], SweepOptions("profile-2026-08")).id
    drain()
    row = by_name(report_of(sweep_id))["a/gone"]
    assert (row["outcome"], row["reason"], row["kind"]) == ("failed", "It is gated.", "gated")
    assert report_of(sweep_id)["funnel"]["dropped"] == 1


def test_the_funnel_adds_up(database: str, sweep_of: Start, drain: Drain) -> None:
    sweep_id = sweep_of(*ALL)
    drain()
    funnel = report_of(sweep_id)["funnel"]
    ends = ("passed", "waiting", "failed", "unknown", "infra")
    assert sum(funnel[name] for name in ends) == funnel["listed"] == 4
    assert (funnel["passed"], funnel["waiting"], funnel["captured"]) == (1, 1, 3)


def test_before_anything_ran_a_model_is_unknown_not_executed(database: str, sweep_of: Start) -> None:
    row = report_of(sweep_of("a/one"))["models"][0]
    assert row["outcome"] == "unknown"
    assert "not executed" in row["reason"]


def test_small_models_go_before_big_ones(database: str, entry: Callable) -> None:
    from pipeline.sweeps.service import start_sweep

    entries = [entry("a/big", 1, parameters=600_000_000), entry("a/small", 2, parameters=20_000_000)]
    with unit_of_work() as session:
        start_sweep(session, "test", entries, SweepOptions("profile-2026-08"))
        first = session.query(Run).order_by(Run.priority.desc()).first()
        assert first is not None
        assert repository.checkpoint_of_model(session, "a/small").id == first.checkpoint_id  # type: ignore[union-attr]


def test_an_unfinished_sweep_is_resumed_and_a_finished_one_is_not(database: str, sweep_of: Start, drain: Drain) -> None:
    first = sweep_of("a/stock-one")
    with unit_of_work() as session:
        found = resume_sweep(session, "test", SweepOptions("profile-2026-08"))
        assert found is not None
        assert found.id == first
        assert resume_sweep(session, "test", SweepOptions("profile-2026-08", weights="synthetic")) is None
    drain()
    with unit_of_work() as session:
        assert is_finished(session, first)
        assert close_finished(session) == [first]
        assert resume_sweep(session, "test", SweepOptions("profile-2026-08")) is None


def test_the_same_catalogue_is_one_snapshot(session: Session, entry: Callable) -> None:
    first = store_snapshot(session, "test", [entry("a/one")])
    second = store_snapshot(session, "test", [entry("a/one")])
    third = store_snapshot(session, "test", [entry("a/one"), entry("a/two", 2)])
    assert first.id == second.id != third.id
    assert session.query(CatalogueSnapshot).count() == 2


def test_an_empty_catalogue_is_an_error_and_leaves_nothing(session: Session) -> None:
    with pytest.raises(EmptyCatalogue):
        store_snapshot(session, "test", [])
    assert session.query(Sweep).count() == 0


def test_an_unknown_model_is_one_sentence(session: Session) -> None:
    with pytest.raises(UnknownModel, match="'a/none'"):
        repository.get_model(session, "a/none")


def test_a_wrong_option_names_its_choices() -> None:
    with pytest.raises(BadInput, match="give one of auto, hub"):
        checked("--weights", "pickle", ("auto", "hub"))


def test_artefacts_of_a_run_are_stored_by_content(
    database: str, settings: Settings, sweep_of: Start, drain: Drain
) -> None:
    from pipeline.database.artefacts import read_artefact

    sweep_of("a/stock-one")
    drain()
    with reading() as session:
        run = session.query(Run).filter_by(stage="execute").one()
        assert [item["kind"] for item in run.artefacts] == ["evidence"]
        assert read_artefact(run.artefacts[0]["digest"]) == b"{}"
    assert list((settings.data_dir / "work").iterdir()) == [], "work folders are removed"


def test_coverage_keeps_real_and_synthetic_apart_and_counts_downloads(
    database: str, sweep_of: Start, drain: Drain
) -> None:
    sweep_of("a/real-stock", "a/stock-two", "a/three")
    drain()
    with reading() as session:
        found = coverage(session, "profile-2026-08", "family")
    assert {name: found[name] for name in ("total", "supported", "passing_real", "passing_synthetic", "truncated")} == {
        "total": 3,
        "supported": 2,
        "passing_real": 1,
        "passing_synthetic": 1,
        "truncated": 0,
    }
    assert found["by_downloads"]["passing_real"] == 1000
    assert found["by_downloads"]["total"] == 1000 + 500 + 333
    assert sum(group["total"] for group in found["groups"]) == 3


def test_coverage_by_operation_names_what_blocks(database: str, sweep_of: Start, drain: Drain) -> None:
    sweep_of("a/one")
    drain()
    with reading() as session:
        groups = coverage(session, "profile-2026-08", "op")["groups"]
    assert [group["name"] for group in groups] == ["aten.pow.Tensor_Scalar"]


def test_pages_of_models_continue_after_the_last_row(session: Session, entry: Callable) -> None:
    store_snapshot(session, "test", [entry(f"a/m{i}", i) for i in range(1, 8)])
    first = repository.page_of_models(session, "profile-2026-08", "", None, None, 4)
    model = first[-1][0]
    rest = repository.page_of_models(session, "profile-2026-08", "", None, (model.downloads, model.id), 4)
    assert [row[0].name for row in [*first, *rest]] == [f"a/m{i}" for i in range(1, 8)]
    assert [m.name for m, _ in repository.page_of_models(session, "profile-2026-08", "M3", None, None, 9)] == ["a/m3"]
    assert repository.page_of_models(session, "profile-2026-08", "%", None, None, 9) == []


def test_what_a_child_names_outside_its_folder_is_refused(tmp_path: Path, settings: Settings) -> None:
    from pipeline.errors import FactoryError
    from pipeline.work.worker import _store_artefact

    with pytest.raises(FactoryError, match="outside its folder"):
        _store_artefact({"path": "../../etc/passwd"}, tmp_path)


def test_a_model_that_the_gate_refused_without_naming_a_cause_is_diagnosed(
    database: str, settings: Settings, sweep_of: Start, drain: Drain
) -> None:
    sweep_of("a/stock-below-limit", "a/stock-two")
    drain()
    diagnosed = [line for line in calls(settings) if line.startswith("diagnose")]
    assert diagnosed == ["diagnose a/stock-below-limit"]
