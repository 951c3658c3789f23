"""On synthetic weights one checkpoint of a group is executed and the others follow it, through releases too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api import standing
from api.sweep_rows import compare_counts, sweep_page
from pipeline.catalogue.entry import CatalogueEntry, WeightsForm
from pipeline.database.accounts import local_reviewer
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.requests.service import create_request, request_status
from pipeline.review import service as review
from pipeline.review.models import CandidateRow
from pipeline.settings import get_settings
from pipeline.sweeps.catalogue import store_snapshot
from pipeline.sweeps.coverage import coverage
from pipeline.sweeps.groups import group_key
from pipeline.sweeps.models import Checkpoint, CheckpointStatus
from pipeline.sweeps.repository import get_sweep, sweep_runs
from pipeline.sweeps.schemas import SweepOptions
from pipeline.sweeps.service import start_sweep, sweep_report
from pipeline.work.models import Run

BERT = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2, "hidden_act": "gelu", "vocab_size": 100}
Entry = Callable[..., CatalogueEntry]
Drain = Callable[[], list[int]]


def of_one_group(entry: Entry, name: str = "a/{}") -> list[CatalogueEntry]:
    sizes = enumerate((100, 250, 999), start=1)
    return [entry(name.format(rank), rank, config={**BERT, "vocab_size": size}) for rank, size in sizes]


def sweep(entries: list[CatalogueEntry], weights: str = "synthetic") -> int:
    with unit_of_work() as session:
        return start_sweep(session, "test", entries, SweepOptions("profile-2026-08", weights=weights)).id


def report(number: int) -> dict[str, Any]:
    with reading() as session:
        return sweep_report(session, number)


def statuses() -> dict[str, tuple[str, str | None]]:
    """By model: the outcome, and the model it was derived from."""
    with reading() as session:
        rows = session.query(CheckpointStatus).all()
        return {
            row.checkpoint.model.name: (row.outcome, row.speaker.model.name if row.speaker else None) for row in rows
        }


@pytest.mark.parametrize("change", [{"vocab_size": 7}, {"architectures": ["X"]}, {"pad_token_id": 3}])
def test_names_vocabulary_and_special_tokens_make_no_other_group(entry: Entry, change: dict[str, Any]) -> None:
    assert group_key(entry("a/1", config={**BERT, **change})) == group_key(entry("a/2", config=BERT))


@pytest.mark.parametrize(
    "other",
    [
        {"config": {**BERT, "hidden_size": 128}},
        {"config": {**BERT, "dtype": "bfloat16"}},
        {"pooling": "cls"},
        {"weights_form": WeightsForm.ADAPTER},
    ],
)
def test_what_may_change_a_verdict_makes_another_group(entry: Entry, other: dict[str, Any]) -> None:
    assert group_key(entry("a/1", **{"config": BERT, **other})) != group_key(entry("a/2", config=BERT))


@pytest.mark.parametrize(
    "same",
    [{"gated": True}, {"custom_code": True}, {"dense": "64->32"}, {"pooling": "mean"}, {"pooling": "splade-max"}],
)
def test_what_reaches_no_verdict_on_synthetic_weights_makes_no_other_group(entry: Entry, same: dict[str, Any]) -> None:
    assert group_key(entry("a/1", config=BERT, **same)) == group_key(entry("a/2", config=BERT))


@pytest.mark.parametrize("other", [{"gated": True}, {"custom_code": True}])
def test_what_the_hub_says_of_a_pinned_row_makes_another_group(entry: Entry, other: dict[str, Any]) -> None:
    pinned = {"config": BERT, "revision": "1" * 40}
    assert group_key(entry("a/1", **pinned, **other)) != group_key(entry("a/2", **pinned))


def test_a_row_without_a_configuration_has_no_group(entry: Entry) -> None:
    assert group_key(entry("a/1", config=None)) is None


def test_one_of_a_group_is_executed_and_the_others_follow(database: str, entry: Entry, drain: Drain) -> None:
    number = sweep([*of_one_group(entry, "a/stock-{}"), entry("a/stock-other", 4)])
    drain()
    found = report(number)
    assert found["executed"] == 2
    assert found["funnel"]["executed"] == found["funnel"]["passed"] == 4
    assert statuses() == {
        "a/stock-1": ("passed", None),
        "a/stock-2": ("passed", "a/stock-1"),
        "a/stock-3": ("passed", "a/stock-1"),
        "a/stock-other": ("passed", None),
    }
    assert [row["derived_from"] for row in found["models"]] == [None, "a/stock-1", "a/stock-1", None]
    assert len({row["fingerprint"] for row in found["models"][:3]}) == 1
    with reading() as session:
        assert coverage(session, "profile-2026-08", "family")["passing_synthetic"] == 4
        assert [point[1:] for point in standing.coverage_over_time(session, "profile-2026-08")] == [(0, 4)]
        families = {row.family for row in session.query(Checkpoint).filter(Checkpoint.group_key.is_not(None))}
        assert len(families) == 1


def test_a_second_sweep_of_a_group_executes_nothing(database: str, entry: Entry, drain: Drain) -> None:
    first = sweep(of_one_group(entry))
    drain()
    second = sweep(of_one_group(entry))
    assert drain() == []
    again = report(second)
    assert again["executed"] == 0
    assert again["models"] == report(first)["models"]


def test_a_model_that_joins_a_group_executes_nothing(database: str, entry: Entry, drain: Drain) -> None:
    sweep(of_one_group(entry, "a/stock-{}"))
    drain()
    second = sweep([entry("a/stock-new", 1, config=BERT, downloads=10**6), *of_one_group(entry, "a/stock-{}")])
    assert drain() == []
    assert report(second)["executed"] == 0
    assert statuses()["a/stock-new"] == ("passed", "a/stock-1")


def test_new_rows_of_known_groups_have_their_verdict_as_soon_as_they_are_listed(
    database: str, entry: Entry, drain: Drain
) -> None:
    swept = [*of_one_group(entry, "a/stock-{}"), entry("a/remote", 4, config={**BERT, "hidden_size": 32})]
    sweep(swept)
    drain()
    fresh = [*of_one_group(entry, "b/{}"), entry("b/4", 4, config={**BERT, "hidden_size": 32})]
    with unit_of_work() as session:
        store_snapshot(session, "test", [*fresh, entry("b/5", 5, config={**BERT, "hidden_size": 16})])
    found = {name: said for name, said in statuses().items() if name.startswith("b/")}
    assert found == {**dict.fromkeys(("b/1", "b/2", "b/3"), ("passed", "a/stock-1")), "b/4": ("failed", "a/remote")}
    with reading() as session:
        figures = coverage(session, "profile-2026-08", "family")
        assert (figures["total"], figures["passing_synthetic"]) == (9, 6)
        rows = {row.checkpoint.model.name: row for row in session.query(CheckpointStatus)}
        names = ("run_id", "adapter_id", "weights", "tier", "fingerprint", "environment", "stock_causes")
        told, teller = ([getattr(rows[name], key) for key in names] for name in ("b/2", "a/stock-1"))
        assert told == teller
        assert rows["b/2"].checkpoint.family == rows["a/stock-1"].checkpoint.family


def test_a_sweep_over_new_rows_of_known_groups_executes_nothing(database: str, entry: Entry, drain: Drain) -> None:
    sweep(of_one_group(entry, "a/stock-{}"))
    drain()
    second = sweep([*of_one_group(entry, "b/{}"), entry("b/stock-other", 4)])
    drain()
    found = report(second)
    assert found["executed"] == 1
    assert [(row["outcome"], row["derived_from"]) for row in found["models"]] == [
        *[("passed", "a/stock-1")] * 3,
        ("passed", None),
    ]
    assert found["funnel"]["executed"] == found["funnel"]["passed"] == 4
    with reading() as session:
        kept = get_sweep(session, second)
        assert standing.funnel(session, kept) == found["funnel"]
        assert [row for _, row in sweep_page(session, kept, None, 10)] == found["models"]
        assert compare_counts(session, kept, kept).passing_in_both == 4


def test_a_verdict_of_another_environment_is_not_taken_by_a_sweep(
    database: str, entry: Entry, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(of_one_group(entry, "a/stock-{}"))
    drain()
    monkeypatch.setattr("pipeline.sweeps.service.environment_digest", lambda _profile: "e" * 64)
    second = sweep(of_one_group(entry, "b/stock-{}"))
    drain()
    assert report(second)["executed"] == 1
    assert statuses()["b/stock-1"] == ("passed", None)
    assert statuses()["b/stock-2"] == statuses()["a/stock-2"] == ("passed", "b/stock-1")


def test_a_verdict_on_real_weights_is_told_to_no_new_row(database: str, entry: Entry, drain: Drain) -> None:
    sweep(of_one_group(entry, "a/real-stock-{}"), weights="auto")
    drain()
    with unit_of_work() as session:
        store_snapshot(session, "test", of_one_group(entry, "b/{}"))
    assert not [name for name in statuses() if name.startswith("b/")]


def test_a_request_for_a_configuration_is_about_the_model_it_names(database: str, entry: Entry, drain: Drain) -> None:
    sweep(of_one_group(entry, "a/stock-{}"))
    drain()
    with unit_of_work() as session:
        asked = create_request(session, "local/stock-c", "profile-2026-08", found=entry("local/stock-c", config=BERT))
        number = asked.request.id
    drain()
    assert statuses()["local/stock-c"] == ("passed", None)
    with reading() as session:
        assert request_status(session, number)["result"]["derived_from"] is None


def test_a_group_is_told_once_however_many_stages_are_passed_through(
    database: str, entry: Entry, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(of_one_group(entry, "a/stock-{}"))
    drain()
    told: list[str] = []
    monkeypatch.setattr(
        "pipeline.work.flow.groups.derive", lambda _session, *found: told.extend(row.outcome for row in found)
    )
    sweep(of_one_group(entry, "a/stock-{}"))
    assert told == ["passed"]


def test_where_real_weights_may_come_every_checkpoint_is_executed(database: str, entry: Entry, drain: Drain) -> None:
    number = sweep(of_one_group(entry, "a/stock-{}"), weights="auto")
    drain()
    assert report(number)["executed"] == 3
    assert {derived for _, derived in statuses().values()} == {None}


def test_a_verdict_on_real_weights_is_never_overwritten(database: str, entry: Entry, drain: Drain) -> None:
    entries = of_one_group(entry, "a/real-stock-{}")
    sweep([entries[0]], weights="auto")
    drain()
    sweep(entries)
    drain()
    names = [item.model_id for item in entries]
    assert statuses() == dict(zip(names, [("passed", None), ("passed", None), ("passed", names[1])], strict=True))
    with reading() as session:
        own = session.query(CheckpointStatus).filter(CheckpointStatus.derived_from.is_(None)).all()
        assert [row.weights for row in own if row.checkpoint.model.name == names[0]] == ["real"]


def test_what_stock_does_on_synthetic_weights_tells_nobody_a_verdict_on_real_ones(
    database: str, entry: Entry, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = of_one_group(entry)
    sweep(entries)
    drain()
    release_the_candidate()
    drain()
    monkeypatch.setattr("pipeline.sweeps.service.environment_digest", lambda _profile: "e" * 64)
    sweep(entries)
    sweep(entries[:1], weights="auto")
    drain()
    with reading() as session:
        rows = session.query(CheckpointStatus).order_by(CheckpointStatus.checkpoint_id)
        rest_on = [(row.derived_from, session.get_one(Run, row.run_id)) for row in rows]
    assert [speaker for speaker, _ in rest_on] == [None, 1, 1]
    assert [run.weights_mode for _, run in rest_on] == ["auto", "synthetic", "synthetic"]
    assert {run.environment for _, run in rest_on} == {"e" * 64}


def release_the_candidate() -> int:
    """The number of the adapter that is released; its one run is queued."""
    with unit_of_work() as session:
        candidate = session.query(CandidateRow).filter_by(state="waiting").one()
        seen, who = review.seen_digest(candidate), local_reviewer(session)
        released = review.approve(session, candidate.id, who, seen=seen, reason="equal")
        assert len(released.runs) == 1
        return released.adapter.id


def test_a_derived_verdict_gives_way_to_one_of_its_own(database: str, entry: Entry, drain: Drain) -> None:
    entries = of_one_group(entry, "a/stock-{}")
    sweep(entries)
    drain()
    sweep([entries[1]], weights="auto")
    drain()
    assert statuses()["a/stock-2"] == ("passed", None)
    assert statuses()["a/stock-3"] == ("passed", "a/stock-1")


def test_a_release_runs_one_of_a_group_and_withdrawal_too(database: str, entry: Entry, drain: Drain) -> None:
    sweep(of_one_group(entry))
    drain()
    assert {outcome for outcome, _ in statuses().values()} == {"failed"}
    adapter = release_the_candidate()
    drain()
    assert {outcome for outcome, _ in statuses().values()} == {"passed"}
    with unit_of_work() as session:
        assert len(review.withdraw_adapter(session, adapter, local_reviewer(session), reason="wrong").runs) == 1
    drain()
    assert {outcome for outcome, _ in statuses().values()} == {"failed"}


def test_a_sweep_of_verdicts_only_diagnoses_later(
    database: str, entry: Entry, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_FACTORY_DRAFTERS", "none")
    get_settings.cache_clear()
    first = sweep(of_one_group(entry))
    drain()
    assert stages(first) == {"inspect", "capture"}
    monkeypatch.delenv("SPYRE_FACTORY_DRAFTERS")
    get_settings.cache_clear()
    second = sweep(of_one_group(entry))
    drain()
    assert stages(second) == {"inspect", "capture", "diagnose", "draft", "verify"}
    assert report(second)["funnel"]["waiting"] == 3


def stages(number: int) -> set[str]:
    with reading() as session:
        return {run.stage for run, _ in sweep_runs(session, number)}
